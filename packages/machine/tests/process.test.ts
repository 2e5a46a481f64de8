import { mkdirSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Context, isHarnessError, keepSecrets } from '@cambium/core'
import { outputText } from '@cambium/machine'
import * as local from '@cambium/machine/local'
import { afterEach, describe, expect, it } from 'vitest'
import { groupMembers, openMachine, processState } from './machine.ts'

const stray: number[] = []
afterEach(() => {
  for (const pid of stray.splice(0)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {}
  }
})

const pidIn = (text: string) => {
  const pid = Number(/^pid (\d+)$/m.exec(text)?.[1])
  stray.push(pid)
  return pid
}

describe('a command is over when it exits', () => {
  it.each([
    ['all pipes held', 'sleep 60 & echo pid $!; echo done'],
    ['stderr held', 'sleep 60 </dev/null >/dev/null & echo pid $!; echo done'],
    ['a child that goes on writing', '(while :; do echo x; sleep 0.1; done) & echo pid $!; echo done'],
    ['a child in a session of its own', 'setsid sleep 300 & echo pid $!; echo done'],
  ])('%s', async (_, command) => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ command, cwd: dir })
    const pid = pidIn(outputText(result))
    // One that writes ends by itself, sooner or later: nobody reads its pipe any more.
    if (!command.includes('echo x')) expect(processState(pid)).toBeDefined()
    expect(outputText(result)).toContain('done\n')
    expect(result).toMatchObject({ exitCode: 0, signal: null, timedOut: false, aborted: false })
    expect(result.durationMs).toBeLessThan(10_000)
  })

  it('everything written before the exit is there, though a child holds the pipe', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({
      command: 'sleep 60 & echo pid $!; head -c 150000 /dev/zero | tr "\\0" a; echo last',
      cwd: dir,
      maxBytes: 200_000,
    })
    pidIn(outputText(result))
    expect(outputText(result)).toMatch(/a{150000}last\n$/)
  })

  it('a timeout does not wait for a child that left the group', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({
      command: 'setsid sleep 300 & echo pid $!; sleep 100',
      cwd: dir,
      timeoutMs: 300,
    })
    expect(processState(pidIn(outputText(result)))).toBeDefined()
    expect(result).toMatchObject({ timedOut: true, aborted: false, signal: 'SIGTERM', exitCode: null })
    expect(result.durationMs).toBeLessThan(10_000)
  })
})

describe('how a command ended is told in separate facts', () => {
  it.each([
    ['true', 0],
    ['false', 1],
    ['exit 3', 3],
    ['no-such-program-here', 127],
  ])('%s exits with %i', async (command, exitCode) => {
    const { ctx, dir } = await openMachine()
    expect(await ctx.process.run({ command, cwd: dir })).toMatchObject({ exitCode, signal: null, timedOut: false })
  })

  it('a command that traps the signal may time out and exit 0', async () => {
    const { ctx, dir } = await openMachine()
    const command = 'trap "echo bye; exit 0" TERM; while :; do sleep 0.01; done'
    const result = await ctx.process.run({ command, cwd: dir, timeoutMs: 300 })
    expect(result).toMatchObject({ timedOut: true, aborted: false, exitCode: 0, signal: null })
    expect(outputText(result, 'stdout')).toBe('bye\n')
  })

  it('a command that ends itself by a signal neither timed out nor was aborted', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ command: 'kill -KILL $$', cwd: dir })
    expect(result).toMatchObject({ timedOut: false, aborted: false, exitCode: null, signal: 'SIGKILL' })
  })

  it('a command that ignores the polite signal is forced, and its whole group with it', async () => {
    const { ctx, dir } = await openMachine({ killGraceMs: 100 })
    const controller = new AbortController()
    const result = await ctx.process.run({
      command: 'trap "" TERM; sleep 300 & echo pid $!; echo leader $$; while :; do sleep 0.01; done',
      cwd: dir,
      signal: controller.signal,
      onOutput: text => text.includes('leader') && controller.abort(),
    })
    expect(result).toMatchObject({ aborted: true, timedOut: false, signal: 'SIGKILL' })
    await expect.poll(() => processState(pidIn(outputText(result))), { timeout: 5_000 }).toBeUndefined()
  })

  it('what outlives a stopped leader is ended as well', async () => {
    const { ctx, dir } = await openMachine()
    const controller = new AbortController()
    const result = await ctx.process.run({
      command: '(trap "" TERM; while :; do sleep 0.01; done) & echo pid $!; echo leader; sleep 100',
      cwd: dir,
      signal: controller.signal,
      onOutput: text => text.includes('leader') && controller.abort(),
    })
    expect(result).toMatchObject({ aborted: true, signal: 'SIGTERM' })
    await expect.poll(() => processState(pidIn(outputText(result))), { timeout: 5_000 }).toBeUndefined()
  })

  it('a listener that throws ends the command, and its error is the outcome', async () => {
    const { ctx, dir } = await openMachine()
    let leader = 0
    const run = ctx.process.run({
      command: 'echo $$; sleep 300',
      cwd: dir,
      onOutput(text) {
        leader = Number(text)
        throw new Error('cannot take this')
      },
    })
    await expect(run).rejects.toThrow('cannot take this')
    // A killed member is gone when the kernel has got to it, which no call can wait for: it is not our child.
    await expect.poll(() => groupMembers(leader), { timeout: 5_000 }).toEqual([])
  })

  it('an aborted request starts nothing', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ command: 'touch made', cwd: dir, signal: AbortSignal.abort() })
    expect(result).toMatchObject({ aborted: true, exitCode: null })
    expect(() => statSync(join(dir, 'made'))).toThrow()
  })
})

describe('a command has nobody to talk to', () => {
  it('its input is at its end', async () => {
    const { ctx, dir } = await openMachine()
    expect(await ctx.process.run({ command: 'cat', cwd: dir })).toMatchObject({ exitCode: 0, totalBytes: 0 })
  })

  it('it is given input when the caller has some', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ argv: ['tr', 'a', 'b'], cwd: dir, stdin: 'banana' })
    expect(outputText(result)).toBe('bbnbnb')
  })

  it('input that the program does not read is no failure', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ command: 'exec 0<&-; echo ok', cwd: dir, stdin: 'x'.repeat(1_000_000) })
    expect(outputText(result)).toBe('ok\n')
  })

  it('it leads a session of its own, without a terminal', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({ command: 'cat /proc/$$/stat; read x </dev/tty', cwd: dir })
    const [pid, , , , group, session, terminal] = outputText(result, 'stdout').split(' ')
    expect([group, session, terminal]).toEqual([pid, pid, '0'])
    expect(outputText(result, 'stderr')).toContain('/dev/tty')
  })

  it('editors and pagers do not wait', async () => {
    const { ctx, dir } = await openMachine()
    const result = await ctx.process.run({
      command: 'git init -q . && echo a > a && git add a && git -c user.name=n -c user.email=e commit; git log | cat',
      cwd: dir,
      env: { HOME: dir },
    })
    expect(outputText(result)).toContain('empty commit message')
  })
})

describe('what a command sees of the environment', () => {
  const secrets = {
    PROVIDER_API_KEY: 'k1',
    INTERNAL_WEB_TOKEN: 't1',
    DB_PASSWORD: 'p1',
    MYSQL_PWD: 'p2',
    AUTH: 'a1',
    CAMBIUM_HOME: '/h',
    AWS_SECRET_ACCESS_KEY: 's1',
  }
  const harmless = { HTTPS_PROXY: 'http://proxy', SSL_CERT_FILE: '/ca', GIT_AUTHOR_NAME: 'me', SSH_AUTH_SOCK: '/sock' }
  const envOf = async (ctx: Context, dir: string) => {
    for (const [name, value] of Object.entries({ ...secrets, ...harmless })) process.env[name] = value
    try {
      return outputText(await ctx.process.run({ command: 'env', cwd: dir }))
    } finally {
      for (const name of Object.keys({ ...secrets, ...harmless })) delete process.env[name]
    }
  }

  it('a known secret is left out under whatever name it stands, unless that name is passed', async () => {
    const { ctx, dir } = await openMachine({ passEnv: ['WANTED'] })
    const key = 'sk-canary-4f9a81c2d7e05b36'
    const values = { ODD_NAME: key, INDEX_URL: `https://me:${key}@host/x`, WANTED: key, NUMBER: '12345678', EMPTY: '' }
    for (const [name, value] of Object.entries(values)) process.env[name] = value
    const env = async () => outputText(await ctx.process.run({ command: 'env', cwd: dir }))
    try {
      expect(await env()).toContain(`ODD_NAME=${key}`)
      const forget = keepSecrets(ctx, () => [key, '12345678', dir])
      const left = await env()
      expect(left).toContain(`WANTED=${key}`)
      expect(left).toContain('NUMBER=12345678')
      expect(left).toMatch(/^PATH=/m)
      expect(left).toContain(`PWD=${dir}`)
      expect(left).not.toMatch(/ODD_NAME|INDEX_URL/)
      forget()
      expect(await env()).toContain('ODD_NAME')
    } finally {
      for (const name of Object.keys(values)) delete process.env[name]
    }
  })

  it('credentials and our own variables are left out, everything else is there', async () => {
    const { ctx, dir } = await openMachine()
    const env = await envOf(ctx, dir)
    for (const name of Object.keys(secrets)) expect(env).not.toMatch(new RegExp(`^${name}=`, 'm'))
    for (const name of ['PATH', 'HOME', ...Object.keys(harmless)]) expect(env).toMatch(new RegExp(`^${name}=.`, 'm'))
    expect(env).toMatch(/^GIT_TERMINAL_PROMPT=0$/m)
  })

  it('the configuration passes some on and sets others', async () => {
    const { ctx, dir } = await openMachine({ passEnv: ['AWS_*', 'DB_PASSWORD'], env: { CI: '1' } })
    const env = await envOf(ctx, dir)
    expect(env).toMatch(/^AWS_SECRET_ACCESS_KEY=s1$/m)
    expect(env).toMatch(/^DB_PASSWORD=p1$/m)
    expect(env).toMatch(/^CI=1$/m)
    expect(env).not.toMatch(/^PROVIDER_API_KEY=/m)
  })

  it('the folder is named as the caller spelt it', async () => {
    const { ctx, dir } = await openMachine()
    await ctx.process.run({ command: 'mkdir real && ln -s real link', cwd: dir })
    const result = await ctx.process.run({ command: 'pwd', cwd: join(dir, 'link') })
    expect(outputText(result)).toBe(`${dir}/link\n`)
  })
})

describe('a command that cannot start says why', () => {
  const failure = async (work: Promise<unknown>) => {
    const error = await work.then(
      () => undefined,
      error => error,
    )
    return isHarnessError(error) ? `${error.code} ${error.problem}` : error
  }

  it('its folder is missing, or no folder, and the next command works', async () => {
    const { ctx, dir } = await openMachine()
    const gone = join(dir, 'gone')
    mkdirSync(gone)
    rmdirSync(gone)
    expect(await failure(ctx.process.run({ command: 'echo hi', cwd: gone }))).toBe(
      `PROCESS_CWD_MISSING working directory ${gone} is missing`,
    )
    writeFileSync(gone, '')
    expect(await failure(ctx.process.run({ command: 'echo hi', cwd: gone }))).toContain('a file in its place')
    expect(await failure(ctx.process.spawn({ command: 'echo hi', cwd: gone }))).toContain('PROCESS_CWD_MISSING')
    expect(outputText(await ctx.process.run({ command: 'echo hi', cwd: dir }))).toBe('hi\n')
  })

  it('its program is missing', async () => {
    const { ctx, dir } = await openMachine()
    expect(await failure(ctx.process.run({ argv: ['no-such-program'], cwd: dir }))).toBe(
      'PROCESS_NOT_FOUND program no-such-program was not found',
    )
  })

  it('it is too long', async () => {
    const { ctx, dir } = await openMachine()
    const command = `echo ${'x'.repeat(300_000)}`
    expect(await failure(ctx.process.run({ command, cwd: dir }))).toMatch(/^PROCESS_TOO_LONG/)
  })

  it('it holds a NUL character', async () => {
    const { ctx, dir } = await openMachine()
    expect(await failure(ctx.process.run({ command: 'echo a\0b', cwd: dir }))).toBe(
      'PROCESS_START_FAILED the command holds a NUL character, which no program can be given',
    )
  })
})

describe('nothing outlives its owner', () => {
  it('a command ends with the plugin that started it', async () => {
    const { ctx, dir } = await openMachine()
    let started!: (leader: number) => void
    const leader = new Promise<number>(resolve => {
      started = resolve
    })
    let result: Promise<unknown> | undefined
    const fiber = await ctx.plugin({
      name: 'caller',
      inject: ['process'],
      apply(inner: Context) {
        result = inner.process.run({
          command: 'echo $$; sleep 300',
          cwd: dir,
          onOutput: text => started(Number(text)),
        })
      },
    })
    const pid = await leader
    await fiber.dispose()
    // A killed member is gone when the kernel has got to it, which no call can wait for: it is not our child.
    await expect.poll(() => groupMembers(pid), { timeout: 5_000 }).toEqual([])
    expect(await result).toMatchObject({ aborted: true })
  })

  it('background children end with the machine, and so do its files', async () => {
    const { ctx, dir } = await openMachine()
    const fiber = ctx.fiber
    const result = await ctx.process.run({
      command: 'sleep 300 & echo pid $!; seq 1 100000',
      cwd: dir,
      spill: true,
    })
    const pid = pidIn(outputText(result))
    expect(statSync(result.spill!.path).isFile()).toBe(true)
    expect(processState(pid)).toBeDefined()
    await fiber.dispose()
    await expect.poll(() => processState(pid), { timeout: 5_000 }).toBeUndefined()
    expect(() => statSync(dirname(result.spill!.path))).toThrow()
  })

  it('children end when the process exits without disposing anything', async () => {
    const { ctx } = await openMachine()
    const script = join(import.meta.dirname, 'fixtures', 'exit-early.ts')
    const result = await ctx.process.run({
      argv: [process.execPath, '--import', 'tsx', script],
      cwd: import.meta.dirname,
    })
    expect(outputText(result, 'stderr')).toBe('')
    const pids = outputText(result, 'stdout').trim().split('\n').map(Number)
    expect(pids).toHaveLength(2)
    for (const pid of pids) {
      stray.push(pid)
      expect(pid).toBeGreaterThan(1)
      await expect.poll(() => processState(pid), { timeout: 5_000 }).toBeUndefined()
    }
  })

  it('a machine that was unloaded leaves no listener on the process', async () => {
    const before = process.listenerCount('exit')
    const machines = [await openMachine(), await openMachine(), await openMachine()]
    expect(process.listenerCount('exit')).toBe(before + 1)
    for (const { ctx } of machines) await ctx.fiber.dispose()
    expect(process.listenerCount('exit')).toBe(before)
  })
})

describe('a program to talk with', () => {
  it('is written to and read from, and tells its end', async () => {
    const { ctx, dir } = await openMachine()
    const child = await ctx.process.spawn({ argv: ['cat'], cwd: dir })
    child.stdin.write('hello\n')
    const [chunk] = await new Promise<[Buffer]>(resolve => child.stdout.once('data', data => resolve([data])))
    expect(String(chunk)).toBe('hello\n')
    child.stderr.resume()
    child.stdin.end()
    expect(await child.exited).toEqual({ exitCode: 0, signal: null })
  })

  it('is ended on request, by force if it must be', async () => {
    const { ctx, dir } = await openMachine({ killGraceMs: 50 })
    const child = await ctx.process.spawn({ command: 'trap "" TERM; echo up; while :; do sleep 0.01; done', cwd: dir })
    child.stderr.resume()
    await new Promise(resolve => child.stdout.once('data', resolve))
    expect(await child.end()).toEqual({ exitCode: null, signal: 'SIGKILL' })
    // A killed member is gone when the kernel has got to it, which no call can wait for: it is not our child.
    await expect.poll(() => groupMembers(child.pid), { timeout: 5_000 }).toEqual([])
  })
})

it('provides what it says it provides', async () => {
  const { ctx } = await openMachine()
  for (const key of local.provide) expect(ctx.get(key)).toBeDefined()
})
