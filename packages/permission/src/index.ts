/** Policy: what an agent may spend, and later what it may do. */

export type { Config as BudgetConfig, Limits } from './budget.ts'
