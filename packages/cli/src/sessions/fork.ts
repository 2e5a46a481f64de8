/** `cambium sessions fork`: a copy to go on in. */

import { EXIT } from '../exit-code.ts'
import { unfinishedLine } from '../open-agent.ts'
import { copySession, turnOf } from './copy.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

export async function run(work: SessionsWork): Promise<number> {
  const { config, ctx } = work
  const { summary, stored, all } = await work.open()
  for (const notice of stored.notices) work.note(`cambium: ${notice}`)
  const turn = config.turn === undefined ? undefined : turnOf(stored, config.turn)
  const copy = await copySession(ctx.sessions, stored, turn)
  if (config.json) {
    await work.sayJson(copy)
    return EXIT.done
  }
  await work.say(copy.id)
  for (const line of unfinishedLine(copy)) work.note(`cambium: ${line}`)
  const part = copy.turn ? ` up to turn ${copy.turn}` : ', with nothing in it yet'
  const short = shortIds([...all, copy])
  work.note(`a copy of ${short(summary.id)}${part}; go on with: cambium run --resume ${short(copy.id)} "…"`)
  return EXIT.done
}
