/** What the summariser is told, behind the conversation that it has just read. */

const SECTIONS = [
  ['Goal', 'what the person wants done, with each condition and correction they gave, in their order'],
  ['State', 'what is finished, what was in progress when this note is written, what was found out'],
  ['Files', 'paths that were read or changed and still matter, each with what is in it or was done to it'],
  ['Facts', 'commands that work, names, versions, ids, numbers, error messages: exactly as they stood'],
  ['Dead ends', 'what was tried and did not work, and why'],
  ['Next', 'the very next step, and what is left after it'],
] as const

export function instruction({ maxTokens, focus }: { maxTokens: number; focus?: string | undefined }): string {
  const words = Math.max(60, Math.floor((maxTokens * 0.5) / 50) * 50)
  const parts = [
    'This conversation is about to be shortened. All of it above this message will be replaced by what you write now, and ' +
      'whoever goes on with the work will have nothing else of it. Write that note.',
    `Use these sections, leave out those that would be empty, and stay below ${words} words:\n${SECTIONS.map(
      ([title, what]) => `## ${title}\n${what}`,
    ).join('\n')}`,
    'Write down what is known, not that it is known: a path, a command or a number that is missing is lost. Where the ' +
      'conversation begins with an earlier note of this kind, take over all of it that still holds. What the person said is kept ' +
      'beside your note as far as it has room, so keep its meaning and do not copy it at length. Do not repeat the system ' +
      'prompt or what instruction files say: they are sent again. Do not go on with the work, call no tool, and write nothing ' +
      'but the note.',
  ]
  if (focus) parts.push(`The person asks you to keep this above all:\n${focus}`)
  return parts.join('\n\n')
}
