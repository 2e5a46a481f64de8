/** Asks a server for its models: `GET <base>/models`, all pages of it, and what else it tells beside. */

import type { IncomingMessage } from 'node:http'
import type { LlmFailure, ModelInfo } from '../stream.ts'
import { type FailureSubject, failureFromNetwork, failureFromResponse, LlmError, quote } from './failure.ts'
import { AnswerTimeout, readText, release } from './http.ts'
import { nextPage, readList, usableModels } from './model-list.ts'

export interface Listing {
  /** Sends a GET to an address of the server; the body is ours to read. */
  get(address: string): Promise<IncomingMessage>
  /** Where the list is. */
  readonly address: string
  /** Further lists, which may not be there. */
  readonly also: readonly string[]
  /** Models that are known without asking, the default first. */
  readonly known: readonly ModelInfo[]
  readonly subject: FailureSubject
  /** Bound of reading one answer. */
  readonly readMs: number
}

type Listed = NonNullable<ReturnType<typeof readList>>

const MAX_LIST_BYTES = 16 * 2 ** 20
const MAX_PAGES = 20

/** @throws {@link LlmError} for a server that does not answer, refuses, or has no list there */
export async function listModels(listing: Listing): Promise<readonly ModelInfo[]> {
  const also = Promise.all(listing.also.map(address => further(listing, address)))
  const listed: Listed[number][] = []
  let address: string | undefined = listing.address
  for (let page = 0; address !== undefined && page < MAX_PAGES; page++) {
    const body: unknown = await read(listing, address)
    const models = readList(body)
    if (!models) throw noList(listing, JSON.stringify(body))
    listed.push(...models)
    const more = nextPage(body)
    address = more && `${listing.address}${listing.address.includes('?') ? '&' : '?'}${more}`
  }
  return usableModels(listed, (await also).flat(), listing.known)
}

/** Not every version of a server has it, and nothing is lost without it. */
async function further(listing: Listing, address: string): Promise<Listed> {
  try {
    return readList(await read(listing, address)) ?? []
  } catch {
    return []
  }
}

async function read(listing: Listing, address: string): Promise<unknown> {
  const { subject } = listing
  let response: IncomingMessage
  try {
    response = await listing.get(address)
  } catch (error) {
    throw error instanceof LlmError ? error : lost(error, subject)
  }
  const { statusCode: status = 0, headers } = response
  const text = await readText(response, MAX_LIST_BYTES, listing.readMs)
  release(response)
  if (status < 200 || status > 299) throw new LlmError(failureFromResponse({ status, headers, body: text }, subject))
  try {
    return JSON.parse(text)
  } catch {
    if (response.complete) throw noList(listing, text)
    throw lost(response.errored ?? new AnswerTimeout('the list did not end in time'), subject)
  }
}

/** A list that did not come, or not whole. */
function lost(error: unknown, subject: FailureSubject): LlmError {
  const name = error instanceof Error ? error.name : ''
  if (name === 'AbortError') return new LlmError({ code: 'ABORTED', message: 'the request was cancelled' }, error)
  const late = error instanceof AnswerTimeout || name === 'TimeoutError'
  const failure: LlmFailure = late
    ? { code: 'TIMEOUT', message: `${subject.provider} gave no answer in time` }
    : failureFromNetwork(error, subject)
  return new LlmError(failure, error)
}

function noList({ subject }: Listing, text: string): LlmError {
  const said = quote(text.slice(0, 120), subject.secrets)
  return new LlmError({
    code: 'MALFORMED_RESPONSE',
    message: `${subject.provider} answered with something that is no list of models: ${said}`,
    fix: `check the base address${subject.baseVariable ? ` in ${subject.baseVariable}` : ''}; most end in /v1`,
  })
}
