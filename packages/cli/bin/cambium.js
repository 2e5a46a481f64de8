#!/usr/bin/env node
// Run from the workspace: the sources are TypeScript, which stock Node 20 cannot read. A release has a bin of its own.

import { fileURLToPath } from 'node:url'

if (!process.features.typescript) {
  // Not with the tsconfig of the folder that it works in: its `paths` would say what our own imports lead to.
  const { TSX_TSCONFIG_PATH: before } = process.env
  process.env.TSX_TSCONFIG_PATH = fileURLToPath(new URL('../package.json', import.meta.url))
  for (const api of ['tsx/cjs/api', 'tsx/esm/api']) (await import(api)).register({ tsconfig: false })
  if (before === undefined) delete process.env.TSX_TSCONFIG_PATH
  else process.env.TSX_TSCONFIG_PATH = before
}
const { main } = await import('../src/main.ts')
const code = await main(process.argv.slice(2))
// Written text reaches a pipe before the process ends, whatever handles a plugin may have left behind.
await Promise.all([process.stdout, process.stderr].map(stream => new Promise(done => stream.write('', done))))
process.exit(code)
