/** Lists in messages: however many things are wrong, what is said of them fits on a screen or two. */

/** `a, b, c and 97 more` */
export function listing(items: readonly string[], max = 10): string {
  if (items.length <= max) return items.join(', ')
  return `${items.slice(0, max).join(', ')} and ${items.length - max} more`
}
