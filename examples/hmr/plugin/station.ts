import { wording } from './wording.ts'

export const measure = (city: string): string => wording(city, 21)
