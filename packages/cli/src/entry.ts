/** The command as the program of a process, from its arguments to its end. */

import { main } from './main.ts'

export async function runProcess(): Promise<never> {
  const streams = [process.stdout, process.stderr]
  // A reader that has gone is no reason to crash; who writes the answer hears of it too, and decides.
  for (const stream of streams) stream.on('error', () => {})
  const code = await main(process.argv.slice(2))
  // Written text reaches a pipe before the process ends, whatever handles a plugin may have left behind.
  await Promise.all(streams.map(stream => new Promise(done => stream.write('', done))))
  process.exit(code)
}
