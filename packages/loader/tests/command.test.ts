import { once } from 'node:events'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bundleCommand, command } from './command-line.ts'

const folder = new URL('./fixtures/trees/', import.meta.url).pathname
const source = new URL('../bin/cordis.js', import.meta.url).pathname
const modules = new URL('../node_modules/', import.meta.url).pathname

let bin = ''
let built = ''
beforeAll(async () => {
  built = mkdtempSync(join(modules, '.command-test-'))
  bin = await bundleCommand(built)
})
afterAll(() => rmSync(built, { recursive: true }))

const cordis = (args: readonly string[], env: Record<string, string> = {}, script = bin, cwd = folder) =>
  command(args, { cwd, env, script })

describe('cordis start', () => {
  test('mounts a tree, TypeScript rows too, stays up until SIGTERM, and disposes in reverse order', async () => {
    const run = cordis(['start', 'up.yml'])
    await run.says('up.yml is up (3 active)')
    run.child.kill('SIGTERM')
    const { code, stdout, stderr } = await run.end
    expect(code).toBe(143)
    expect(stdout).toBe('+a\n+b\n+typed\n-b\n-a\n')
    expect(stderr).toBe('cordis: up.yml is up (3 active)\n')
  })

  test('ends with its finite work, whose code and arguments it passes on', async () => {
    const { code, stdout } = await cordis(['start', 'finite.yml', '--', 'x', '--set'], { CODE: '3' }).end
    expect(stdout).toBe('+t\nhello x --set\n-t\n')
    expect(code).toBe(3)
  })

  test('goes on when nobody reads what it says any more, and still ends in order', async () => {
    const run = cordis(['start', 'chatty.yml'])
    await run.says('chatty.yml is up')
    run.child.stderr!.destroy()
    const line = once(run.child.stdout!, 'data')
    run.child.kill('SIGUSR2')
    expect(String(await line)).toBe('heard\n')
    run.child.kill('SIGTERM')
    const { code, stdout } = await run.end
    expect([code, stdout]).toEqual([143, 'heard\nleft\n'])
  })

  test('lays patches, then settings, over the tree, and takes variables from a file that never override real ones', async () => {
    const args = ['start', 'finite.yml', '--patch', 'patch.yml', '--set', 'p.tag=set', '--env-file', 'vars.env']
    const { code, stdout } = await cordis(args, { CODE: '6' }).end
    expect(stdout).toBe('+t\n+set\nfrom the file \n-set\n-t\n')
    expect(code).toBe(4)
  })

  test('several trees end with the highest code, and the process when all have ended', async () => {
    const args = ['start', 'quits.yml', 'finite.yml', '--set', 'run.print=only the second tree has that row']
    const { code, stdout, stderr } = await cordis(args, { CODE: '2' }).end
    expect(code).toBe(7)
    expect(stdout).toContain('only the second tree has that row')
    expect(stderr).toContain('quits.yml is up')
    expect(stderr).toContain('finite.yml is up')
  })

  test('expands a pattern that no shell expanded', async () => {
    const { code, stdout } = await cordis(['start', 'fin*.yml', '--log-level', 'silent']).end
    expect([code, stdout]).toEqual([0, '+t\nhello \n-t\n'])
  })

  test('refuses a second owner of standard output by name, and leaves neither tree mounted', async () => {
    const { code, stdout, stderr } = await cordis(['start', 'finite.yml', 'other.yml']).end
    expect(code).toBe(1)
    expect(stdout).toBe('+t\n-t\n')
    expect(stderr).toContain('TREE_CLAIM_TAKEN: stdout is already taken by run (finite.yml:1:3)')
    expect(stderr).toContain('where: mine (other.yml:1:3)')
    expect(stderr).toContain('start other.yml and finite.yml in two processes')
  })

  test('tells every mistake of every file before it mounts anything', async () => {
    const { code, stdout, stderr } = await cordis(['start', 'up.yml', 'wrong.yml', 'wrong-too.yml', 'gone.yml']).end
    expect(code).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toContain('cordis: TREE_KEY_UNKNOWN: a row has no key `confg`')
    expect(stderr).toContain(
      'cordis: TREE_MODULE_NOT_FOUND: there is no file nothing.js\n  where: wrong-too.yml:1:18 (row v)',
    )
    expect(stderr).toContain('cordis: TREE_FILE_UNREADABLE: gone.yml: there is no such file')
  })

  test('the first signal stops work in order, and the code says which signal it was', async () => {
    const run = cordis(['start', 'held.yml'])
    await run.says('working')
    run.child.kill('SIGINT')
    const { code, stdout } = await run.end
    expect(stdout).toBe('working\nstopped by SIGINT\n')
    expect(code).toBe(130)
  })

  test('a second signal ends at once what does not end by itself', async () => {
    const run = cordis(['start', 'hang.yml'])
    await run.says('hang.yml is up')
    run.child.kill('SIGINT')
    await run.says('-h')
    run.child.kill('SIGTERM')
    expect((await run.end).code).toBe(143)
  })

  test('what a plugin leaves unhandled is reported and ends the trees in order', async () => {
    const { code, stdout, stderr } = await cordis(['start', 'stray.yml']).end
    expect(code).toBe(1)
    expect(stdout).toBe('+t\n-t\n')
    expect(stderr).toContain('nobody caught this')
  })
})

describe('a TypeScript row', () => {
  test('starts from the sources of the workspace too, in a folder without a manifest', async () => {
    const away = mkdtempSync(join(tmpdir(), 'loader-typed-'))
    cpSync(folder, away, { recursive: true })
    const run = cordis(['start', 'up.yml'], {}, source, away)
    await run.says('up.yml is up (3 active)')
    run.child.kill('SIGTERM')
    expect((await run.end).stdout).toContain('+typed')
    rmSync(away, { recursive: true })
  })

  test.skipIf('typescript' in process.features)('is refused in one sentence where nothing can run it', async () => {
    const away = mkdtempSync(join(tmpdir(), 'loader-typed-'))
    cpSync(folder, away, { recursive: true })
    cpSync(bin, join(away, 'bin', 'cordis.mjs'))
    const { code, stdout, stderr } = await cordis(['start', 'up.yml'], {}, join(away, 'bin', 'cordis.mjs'), away).end
    expect([code, stdout]).toEqual([1, ''])
    expect(
      stderr,
    ).toBe(`cordis: TREE_MODULE_FAILED: ./typed.ts cannot be imported: this Node cannot run TypeScript, and tsx is not installed
  where: up.yml:3:22 (row typed)
  fix:   install tsx beside the tree, or use a Node with type stripping
`)
    rmSync(away, { recursive: true })
  })
})

describe('the command line', () => {
  test('without a command shows the few lines one needs', async () => {
    const { code, stdout, stderr } = await cordis([]).end
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^usage: cordis start/)
    expect(stderr.split('\n').length).toBeLessThan(10)
  })

  test.each([
    ['strat', 'did you mean cordis start?'],
    ['held.yml', 'did you mean cordis start held.yml?'],
  ])('with the unknown command %s says what is meant', async (name, meant) => {
    const { code, stderr } = await cordis([name, 'x']).end
    expect(code).toBe(2)
    expect(stderr).toMatch(`cordis: unknown command ${name}\n  ${meant}\n\nusage: cordis start`)
  })

  test('with an unknown flag says which, and how the command is used', async () => {
    const { code, stderr } = await cordis(['start', '--wach']).end
    expect(code).toBe(2)
    expect(stderr).toContain("cordis: unknown option '--wach'")
    expect(stderr).toContain('usage: cordis start')
  })

  test.each([
    ['the tree', ['finite.yml']],
    ['every tree', ['finite.yml', 'up.yml']],
  ])('with a setting whose row %s lacks ends with 1 and names what was meant', async (_name, files) => {
    const { code, stdout, stderr } = await cordis(['start', ...files, '--set', 'rum.code=1']).end
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('no row has the id "rum"')
    expect(stderr).toContain('did you mean "run"?')
  })

  test('--help explains every option and ends with 0', async () => {
    const { code, stdout } = await cordis(['start', '--help']).end
    expect(code).toBe(0)
    for (const option of ['--set', '--patch', '--env-file', '--log-level']) expect(stdout).toContain(option)
  })
})
