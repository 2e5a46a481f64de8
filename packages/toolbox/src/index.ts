/** Bundled tools. Each plugin is a path of its own: `@cambium/toolbox/fs`, `/search`, `/bash`, `/redact`. */

export type { Hunk, LineDiff } from './line-diff.ts'
export type { FeedState } from './output-feed.ts'
