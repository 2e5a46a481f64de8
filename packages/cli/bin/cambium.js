#!/usr/bin/env node
// Run from the workspace: the sources are TypeScript, which stock Node 20 cannot read. A release has a bin of its own.

if (!process.features.typescript) {
  for (const api of ['tsx/cjs/api', 'tsx/esm/api']) (await import(api)).register()
}
const { runProcess } = await import('../src/entry.ts')
await runProcess()
