#!/usr/bin/env node
// Run from the workspace: the sources are TypeScript, which stock Node 20 cannot read. A release has a bin of its own.

if (!process.features.typescript) {
  for (const api of ['tsx/cjs/api', 'tsx/esm/api']) (await import(api)).register()
}
const { main } = await import('../src/main.ts')
const code = await main(process.argv.slice(2))
// Written text reaches a pipe before the process ends, whatever handles a plugin may have left behind.
await Promise.all([process.stdout, process.stderr].map(stream => new Promise(done => stream.write('', done))))
process.exit(code)
