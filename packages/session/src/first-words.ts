/** The beginning of a text on one line, with nothing in it that commands a terminal. Cut by characters, not by code units. */
export function firstWords(text: string, max: number): string {
  const words = text
    .slice(0, 1_000)
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
  return cutTo(words, max)
}

/** At most `max` characters; what is longer ends in `…`. */
export function cutTo(text: string, max: number): string {
  const characters = [...text]
  if (characters.length <= max) return text
  const kept = characters.slice(0, max - 1).join('')
  return `${kept.trimEnd()}…`
}
