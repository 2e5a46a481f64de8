import { main } from '@cambium/cli'
import { tempWorkspace } from '@cambium/testkit'
import { describe, expect, test } from 'vitest'
import { testHost } from './streams.ts'

async function cambium(argv: readonly string[], options: Parameters<typeof testHost>[0] = {}) {
  const host = testHost({ stdin: 'terminal', ...options })
  return { code: await main(argv, host), stdout: host.stdout.text, stderr: host.stderr.text }
}

describe('the command line', () => {
  test('a bare command shows the few lines one needs', async () => {
    const { code, stdout, stderr } = await cambium([])
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/usage:\n {2}cambium run/)
    expect(stderr.split('\n').length).toBeLessThan(14)
  })

  test('help and version go to standard output', async () => {
    const help = await cambium(['--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toContain('cambium run')
    expect(await cambium(['--version'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
  })

  test('the help of run has every flag and every exit code', async () => {
    const { code, stdout } = await cambium(['run', '--help'])
    expect(code).toBe(0)
    const flags =
      'model image cwd output resume continue max-steps timeout mode set patch no-layers no-project quiet help'.split(
        ' ',
      )
    for (const flag of flags) expect(stdout).toContain(`--${flag}`)
    for (const exit of ['0 ', '1 ', '2 ', '3 ', '4 ', '130']) expect(stdout).toMatch(new RegExp(`^ {2}${exit}`, 'm'))
    expect(Math.max(...stdout.split('\n').map(line => line.length))).toBeLessThanOrEqual(110)
  })

  test.each([
    ['a mistyped command', ['rnu', 'x'], 'did you mean cambium run?'],
    ['a task without a command', ['fix the tests'], 'a task goes behind run: cambium run "fix the tests"'],
    ['a mistyped flag', ['run', '--modle', 'x'], 'did you mean --model?'],
    ['a flag that is far from all', ['run', '--zzzzzzzz', 'x'], 'unknown flag --zzzzzzzz'],
    ['an unknown short flag', ['run', '-z', 'x'], 'unknown flag -z'],
    ['a missing value', ['run', '--model'], '--model needs a value'],
    ['a flag in place of a value', ['run', '--model', '--quiet', 'x'], '--model needs a value'],
    ['a value for a switch', ['run', '--quiet=yes', 'x'], '--quiet takes no value'],
    ['a flag given twice', ['run', '--model', 'a/b', '--model', 'c/d', 'x'], '--model is given twice'],
    ['an unknown form', ['run', '--output', 'xml', 'x'], 'one of: text, json, jsonl'],
    ['an unknown mode', ['run', '--mode', 'ask', 'x'], 'one of: full'],
    ['a number that is none', ['run', '--max-steps', '0', 'x'], '--max-steps 0 is not a whole number'],
    ['a time that is none', ['run', '--timeout', 'soon', 'x'], 'write seconds, or 90s, 5m, 1h'],
    ['two ways to resume', ['run', '--continue', '--resume', 'x'], '--continue and --resume exclude each other'],
    ['no task', ['run'], 'there is no task'],
  ])('%s is a usage error that says what to write', async (_, argv, text) => {
    const { code, stdout, stderr } = await cambium(argv)
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toContain(text)
    expect(stderr).toContain('usage:')
    expect(stderr).not.toMatch(/\n\s+at /)
  })

  test('a folder that is not there, and a file in its place, are usage errors', async () => {
    using workspace = tempWorkspace({ 'file.txt': '' })
    const { path: cwd } = workspace
    const missing = await cambium(['run', '--cwd', 'gone', 'x'], { cwd })
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining(`there is no folder ${cwd}/gone`) })
    const file = await cambium(['run', '--cwd', 'file.txt', 'x'], { cwd })
    expect(file).toMatchObject({ code: 2, stderr: expect.stringContaining('file.txt is not a folder') })
  })

  test('a patch that cannot be read, or makes no sense, is one clear message with its place', async () => {
    using workspace = tempWorkspace({
      'bad.yml': '- id: lop\n  config: { model: x }\n',
      'broken.yml': '- id: [\n',
    })
    const { path: cwd } = workspace
    const missing = await cambium(['run', '--patch', 'gone.yml', 'x'], { cwd })
    expect(missing.code).toBe(2)
    expect(missing.stderr).toContain('gone.yml: there is no such file')
    const unknown = await cambium(['run', '--patch', 'bad.yml', 'x'], { cwd })
    expect(unknown.stderr).toMatch(/no row has the id "lop" \(.*bad\.yml:1:3\)\n {2}did you mean "loop"\?/)
    const broken = await cambium(['run', '--patch', 'broken.yml', 'x'], { cwd })
    expect(broken.stderr).toMatch(/broken\.yml:\d+:\d+/)
    for (const { stdout, stderr } of [missing, unknown, broken]) {
      expect(stdout).toBe('')
      expect(stderr).not.toMatch(/\n\s+at /)
    }
  })

  test('with json, a failure to start is an object on standard output as well', async () => {
    const { code, stdout } = await cambium(['run', '-o', 'json', '--set', 'nowhere.x=1', 'x'])
    expect(code).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({
      answer: '',
      stopReason: 'failed',
      exitCode: 2,
      error: { code: 'TREE_TARGET_UNKNOWN' },
    })
  })
})
