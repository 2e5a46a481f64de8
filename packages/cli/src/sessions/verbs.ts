/** What `cambium sessions` can do. */
export const VERBS = ['list', 'show', 'search', 'fork', 'rewind', 'delete', 'prune', 'export', 'import'] as const
export type Verb = (typeof VERBS)[number]
