import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, test } from 'vitest'
import { type Bench, openBench } from './run-command.ts'

let bench: Bench
afterEach(() => bench?.close())

/** A PNG of one red pixel. */
const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC'
const dot = Buffer.from(DOT, 'base64')

/** A folder with two pictures, one of them under another format's name. */
async function withPictures() {
  bench = await openBench({ otherwise: 'seen' })
  bench.folder.write('dot.png', dot)
  bench.folder.write('inner/dot.jpg', dot)
  bench.folder.write('page.png', '<html>404</html>')
  bench.folder.write('logo.svg', '<svg/>')
  return bench
}
const url = (data: string) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } })

describe('--image', () => {
  test('a picture goes to the model with the task behind it, whatever its name says', async () => {
    await withPictures()
    const { code, stdout, stderr } = await bench.run(['--cwd', 'inner', '--image', 'inner/dot.jpg', 'what is it?'])
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'seen\n', stderr: '' })
    expect(bench.server.requests[0]?.body.messages.at(-1)?.content).toEqual([
      url(DOT),
      { type: 'text', text: 'what is it?' },
    ])
    bench.server.expectDone()
  })

  test('several are told apart by their names', async () => {
    await withPictures()
    await bench.run(['--image', 'dot.png', '--image', join(bench.folder.path, 'inner/dot.jpg'), 'compare'])
    expect(bench.server.requests[0]?.body.messages.at(-1)?.content).toEqual([
      { type: 'text', text: 'dot.png:' },
      url(DOT),
      { type: 'text', text: 'dot.jpg:' },
      url(DOT),
      { type: 'text', text: 'compare' },
    ])
  })

  test.each([
    ['that does not exist', 'missing.png', /--image \S*missing\.png does not exist/],
    ['that is a folder', 'inner', /--image \S*inner is a folder/],
    ['that is something else', 'page.png', /page\.png is a page of HTML and no image\n.*error page/],
    ['of a format that nobody reads', 'logo.svg', /--image \S*logo\.svg is an SVG drawing.*\n.*render it to PNG/],
  ])('a file %s is a mistake on the command line, and nothing is begun', async (_, file, said) => {
    await withPictures()
    const { code, stdout, stderr } = await bench.run(['--image', file, 'what is it?'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(said)
    expect(stderr).not.toMatch(/\n\s+at /)
    expect(bench.server.requests).toHaveLength(0)
    const { report } = await bench.run(['--output', 'json', '--image', file, 'what is it?'])
    expect(report).toMatchObject({ exitCode: 2, error: { code: 'CLI_USAGE' } })
    expect(report.session).toBeUndefined()
  })

  test('a picture without a task is none, and neither is one on standard input', async () => {
    await withPictures()
    expect(await bench.run(['--image', 'dot.png'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no task'),
    })
    expect(await bench.run(['what is it?'], { stdin: Readable.from([dot]) })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/standard input is a picture\n.*--image <file>/s),
    })
  })

  test('a model that is known to read none is told that there was one, and so is the person', async () => {
    await withPictures()
    const blind = { baseURL: bench.server.url, apiKey: 'k', models: [{ id: 'blind', input: ['text'] }] }
    bench.folder.write('blind.yml', JSON.stringify([{ id: 'openai', config: { providers: { mine: blind } } }]))
    const run = (...more: string[]) =>
      bench.run(['--patch', 'blind.yml', '--model', 'mine/blind', '--image', 'dot.png', ...more, 'what is it?'])
    const { code, stderr } = await run()
    expect(code).toBe(0)
    expect(stderr).toBe('warning: mine/blind reads no images; it is only told that there was one\n')
    expect(bench.server.requests[0]!.text).not.toContain('base64')
    expect(bench.server.requests[0]!.text).toContain('this model does not read images')
    expect((await run('--quiet')).stderr).toBe('')
  })

  test('jsonl has its bytes where the events have them, and json nowhere', async () => {
    await withPictures()
    const json = await bench.run(['--output', 'json', '--image', 'dot.png', 'what is it?'])
    expect(json.stdout).not.toContain(DOT)
    const jsonl = await bench.run(['--output', 'jsonl', '--image', 'dot.png', 'what is it?'])
    const holders = jsonl.stdout.split('\n').filter(line => line.includes(DOT))
    expect(holders.map(line => JSON.parse(line).type)).toEqual(['inbox/changed', 'user/message'])
  })

  test('a session with a picture is taken up again with it', async () => {
    await withPictures()
    await bench.run(['--image', 'dot.png', 'what is it?'])
    await bench.run(['--continue', 'and its colour?'])
    expect(bench.server.requests[1]!.text).toContain(DOT)
    bench.server.expectDone()
  })
})
