export const VERBS = ['set', 'list', 'remove', 'login', 'logout'] as const
export type Verb = (typeof VERBS)[number]
