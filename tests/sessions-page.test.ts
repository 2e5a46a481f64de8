/** The page on sessions: each of its commands does what it says, in its order, with what is shipped. */

import { spawn } from 'node:child_process'
import { chmodSync, existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { builtBin, startModelServer, tempWorkspace } from '@cambium/testkit'
import { expect, it } from 'vitest'

const page = readFileSync(fileURLToPath(new URL('../docs/sessions.md', import.meta.url)), 'utf8')
const blocks = [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, text]) => text!)
const patch = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text!).join('')

it('every command of the page works on a session of the shipped tree', async () => {
  const write = (text: string) => ({
    toolCalls: [{ name: 'write', arguments: { file_path: 'notes.md', content: text } }],
  })
  await using server = await startModelServer({
    models: ['test-model'],
    replies: ['It fails for a reason.', write('notes\n'), 'Written.'],
    otherwise: 'Done.',
  })
  using home = tempWorkspace()
  using folder = tempWorkspace()
  using programs = tempWorkspace()
  const bin = await builtBin('cambium')
  chmodSync(programs.write('cambium', `#!/bin/sh\nexec "${process.execPath}" "${bin}" "$@"\n`), 0o755)
  home.write('cordis.patch.yml', patch)
  const env = {
    PATH: `${programs.path}:${process.env['PATH']}`,
    HOME: home.path,
    CAMBIUM_HOME: home.path,
    OPENAI_BASE_URL: server.url,
    OPENAI_API_KEY: 'x',
  }
  /** One line of a shell, as somebody types it. */
  const sh = (line: string) =>
    new Promise<{ line: string; code: number | null; stdout: string; stderr: string }>(resolve => {
      const child = spawn('sh', ['-c', line], { cwd: folder.path, env, stdio: ['ignore', 'pipe', 'pipe'] })
      let [stdout, stderr] = ['', '']
      child.stdout.on('data', chunk => (stdout += chunk))
      child.stderr.on('data', chunk => (stderr += chunk))
      child.on('close', code => resolve({ line, code, stdout, stderr }))
    })

  // The session that the page speaks of.
  const id = '20261130-141503-k3f9qa'
  const [first] = (await sh('cambium run --output json "why is the failing test so slow?"')).stdout.split('\n')
  await sh('cambium run --continue "write notes about it"')
  await sh(
    `cambium sessions export ${JSON.parse(first!).session} -o first.json && cambium sessions import first.json --id ${id}`,
  )

  const results = new Map<string, Awaited<ReturnType<typeof sh>>>()
  const lines = blocks.flatMap(block => block.split('\n').filter(Boolean))
  expect(lines.length).toBeGreaterThan(14)
  for (const line of lines) {
    const result = await sh(line)
    expect(result, line).toMatchObject({ code: 0 })
    results.set(line.replace(/ +#.*/, ''), result)
  }
  const stdout = (line: string) => results.get(line)!.stdout
  expect(stdout('cambium sessions list')).toContain(id)
  expect(stdout('cambium sessions list failing test')).toContain(id)
  expect(stdout('cambium sessions show k3f9qa')).toContain('write notes about it')
  expect(stdout('cambium sessions show k3f9qa --turn last')).not.toContain('why is')
  expect(stdout('cambium sessions search "failing test"')).toMatch(/\*failing\* ?\*?test/)
  expect(stdout('cambium sessions fork k3f9qa --turn 1')).toMatch(/^\S+\n$/)
  expect(stdout('cambium sessions import talk.json --id talk-2')).toBe('talk-2\n')
  expect(folder.read('talk.md')).toContain('## Turn 2')
  expect(stdout('cambium sessions delete talk-2 --yes')).toBe('deleted talk-2\n')
  // What the page has people write is laid over the tree all the while.
  expect(existsSync(`${home.path}/trace.jsonl`)).toBe(patch.includes('trace.jsonl'))
}, 120_000)
