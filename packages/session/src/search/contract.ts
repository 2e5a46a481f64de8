/** `ctx.sessionSearch`: full-text search over everything that was said in stored and live sessions. */

import type { SessionId } from '../event.ts'

export interface SessionHit {
  readonly id: SessionId
  readonly seq: number
  /** Of the event, in milliseconds since the epoch. */
  readonly time: number
  readonly role: 'user' | 'assistant' | 'tool' | 'title'
  /** The text around the match: plain, one line. */
  readonly snippet: string
  /** What matched, as offsets in the snippet. */
  readonly matches: readonly (readonly [from: number, to: number])[]
  /** Of the session, as lists show it. */
  readonly title?: string
}

export interface SessionSearchOptions {
  /** Only sessions that work in this folder. */
  cwd?: string
  /** 20 by default. */
  limit?: number
  /** Most hits of one session, so that the last one does not hide the others; 3 by default. */
  perSession?: number
  signal?: AbortSignal
  /** Told while the index is brought up to date: sessions that were read, of those that have to be. Must not throw. */
  onProgress?: (done: number, all: number) => void
}

export interface SessionSearchResult {
  /** Newest sessions first, and the newest messages of each. */
  readonly hits: SessionHit[]
  /** Sessions that were searched. */
  readonly indexed: number
  /** What could not be searched or brought up to date, in words for a person. */
  readonly notices: readonly string[]
}

export interface SessionSearch {
  /**
   * Finds messages in which every word of the query occurs. A word is found at the beginning of a word or of a part of
   * one (`header` in `parseHeader`), whatever its case, and anywhere in writing without blanks; "quotes" look for words as
   * they are, and for several in a row. Everything else in a query is text: there is no syntax.
   * @throws `SESSION_QUERY_EMPTY`, the signal's reason
   */
  search(query: string, options?: SessionSearchOptions): Promise<SessionSearchResult>
  /** Makes the index anew. @throws as a disk fails, `STORE_LOCKED` while another process works on it, the signal's reason */
  rebuild(options?: Pick<SessionSearchOptions, 'signal' | 'onProgress'>): Promise<{ sessions: number }>
}

declare module 'cordis' {
  interface Context {
    /** Full-text search over all sessions. */
    sessionSearch: SessionSearch
  }
}
