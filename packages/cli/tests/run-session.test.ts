import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { main } from '@cambium/cli'
import type { ModelRequest } from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { testHost } from './streams.ts'

let bench: Bench
afterEach(() => bench?.close())

const filesBelow = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))

const events = (): { type: string; data: { title?: string; by?: string } }[] => {
  const [log] = filesBelow(bench.home.path).filter(file => file.endsWith('.jsonl'))
  return readFileSync(log!, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}
const titles = () => events().flatMap(({ type, data }) => (type === 'session/title' ? [data] : []))

const forTitle = ({ body }: ModelRequest) => JSON.stringify(body.messages).includes('Give this request a title')
const TITLED = ['--set', 'title.model=openai/test-model', '--set', 'title.delayMs=0']
const work = (command: string) => ({
  toolCalls: [{ name: 'bash', arguments: { command } }],
  when: (request: ModelRequest) => !forTitle(request),
})

describe('a run', () => {
  it('names its session beside the work, by one small request', async () => {
    bench = await openBench({
      replies: [
        work('until [ -e named ]; do sleep 0.02; done'),
        { text: '"Waiting for a name."', when: forTitle },
        { text: 'Done.', when: request => !forTitle(request) },
      ],
    })
    const { host, finished } = bench.start([...TITLED, '-o', 'jsonl', 'wait until this has a name'])
    // The answer to it comes at once; the step goes on when the title is there.
    await host.stdout.contains(/"by":"model"/)
    bench.folder.write('named', '')
    expect((await finished).code).toBe(0)
    expect(titles()).toMatchObject([
      { title: 'wait until this has a name', by: 'prompt' },
      { title: 'Waiting for a name', by: 'model' },
    ])
    const asked = bench.server.requests.find(forTitle)!
    expect(asked.body).toMatchObject({ model: 'test-model' })
    expect(JSON.stringify(asked.body)).not.toContain('"tools"')
    bench.server.expectDone()
  })

  it('that is over does not wait for a title', async () => {
    bench = await openBench({
      replies: [
        work('until [ -e asked ]; do sleep 0.02; done'),
        { text: 'never', fault: 'stall', after: 'request', when: forTitle },
        { text: 'Done.', when: request => !forTitle(request) },
      ],
    })
    const { finished } = bench.start([...TITLED, 'be quick'])
    await bench.server.request(1)
    const asked = performance.now()
    bench.folder.write('asked', '')
    const { code, stdout } = await finished
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Done.\n' })
    expect(performance.now() - asked).toBeLessThan(5_000)
    expect(titles()).toEqual([{ title: 'be quick', by: 'prompt' }])
  })

  it('keeps long output with its session, out of the log, for as long as that is kept', async () => {
    bench = await openBench({
      replies: [{ toolCalls: [{ name: 'bash', arguments: { command: 'seq 1 30000' } }] }, 'Done.'],
    })
    expect((await bench.run(['count'])).code).toBe(0)
    const [file] = filesBelow(bench.home.path).filter(path => path.includes('.files/spill/'))
    expect(readFileSync(file!, 'utf8')).toMatch(/^1\n2\n[\s\S]*\n30000\n$/)
    expect(statSync(file!).mode & 0o777).toBe(0o600)
    const result = events().find(({ type }) => type === 'tool/result')
    expect(JSON.stringify(result).length).toBeLessThan(40_000)
    expect(JSON.stringify(result)).toContain(`the full output is in ${file}`)
    const host = testHost({ cwd: bench.folder.path })
    const [log] = filesBelow(bench.home.path).filter(path => path.endsWith('.jsonl'))
    const id = log!.split('/').at(-1)!.slice(0, -'.jsonl'.length)
    expect(await main(['sessions', 'delete', '--yes', id], host), host.stderr.text).toBe(0)
    expect(existsSync(file!)).toBe(false)
  })
})
