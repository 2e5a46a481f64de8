import { execFile } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { replaceFile } from '@cambium/store'
import { type FileChange, type WatchOptions, watchFiles } from '@cambium/store/watch'
import { describe, it, type TestContext } from 'vitest'

const run = promisify(execFile)

function scratch({ onTestFinished }: Pick<TestContext, 'onTestFinished'>) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'cambium-watch-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

interface Seen {
  readonly kinds: string[]
  readonly paths: string[]
  /** What the files held when it was told. */
  readonly texts: string[]
}

/** A watch whose calls are awaited one by one. */
function watching(
  { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
  files: readonly string[],
  options: WatchOptions = {},
) {
  const calls: Seen[] = []
  let wake = () => {}
  const watch = watchFiles(
    changes => {
      calls.push({
        kinds: changes.map(({ kind }) => kind),
        paths: changes.map(({ path }) => path),
        texts: changes.map(({ path, kind }) => (kind === 'removed' ? '' : readFileSync(path, 'utf8'))),
      })
      wake()
    },
    { persistent: true, ...options },
  )
  onTestFinished(() => watch.close())
  watch.update(files)
  let taken = 0
  return {
    watch,
    calls,
    async next(): Promise<Seen> {
      while (calls.length === taken) await new Promise<void>(resolve => (wake = resolve))
      return calls[taken++]!
    },
  }
}

type Save = (path: string, text: string) => void | Promise<void>

/** How editors, deployers and people save. The pauses are theirs. */
const styles: Record<string, Save> = {
  'in place': writeFileSync,
  'temporary file and rename': (path, text) => {
    writeFileSync(`${path}.tmp`, text)
    renameSync(`${path}.tmp`, path)
  },
  'the file aside as a backup, then a new one': (path, text) => {
    renameSync(path, `${path}~`)
    writeFileSync(path, text)
  },
  'delete, and create 500 ms later': async (path, text) => {
    rmSync(path)
    await pause(500)
    writeFileSync(path, text)
  },
  'truncate, and write in two chunks 100 ms apart': async (path, text) => {
    writeFileSync(path, '')
    await pause(100)
    appendFileSync(path, text.slice(0, 3))
    await pause(100)
    appendFileSync(path, text.slice(3))
  },
  'five times within 200 ms': async (path, text) => {
    for (let i = 1; i < 5; i++) {
      writeFileSync(path, `draft ${i} of ${text}`)
      await pause(40)
    }
    writeFileSync(path, text)
  },
  replaceFile,
}

describe.concurrent('a save is told once, with the whole content, the second one too', () => {
  it.for(Object.entries(styles))('%s', async ([, save], test) => {
    const { expect } = test
    const folder = scratch(test)
    const file = join(folder, 'cordis.yml')
    const last = join(folder, 'last')
    writeFileSync(file, 'content 0')
    const { calls, next } = watching(test, [file, last])
    for (const text of ['content 1', 'content 2']) {
      await save(file, text)
      expect(await next()).toEqual({ kinds: ['changed'], paths: [file], texts: [text] })
    }
    writeFileSync(last, 'end')
    await next()
    expect(calls).toHaveLength(3)
  })

  it('all styles in turn, through a link', async test => {
    const { expect } = test
    const folder = scratch(test)
    mkdirSync(join(folder, 'real'))
    writeFileSync(join(folder, 'real', 'target.yml'), 'start')
    const link = join(folder, 'cordis.yml')
    symlinkSync('real/target.yml', link)
    const { calls, next } = watching(test, [link])
    let count = 0
    for (const [style, save] of Object.entries(styles)) {
      const text = `content by: ${style}`
      await save(style === 'replaceFile' ? link : join(folder, 'real', 'target.yml'), text)
      expect(await next()).toEqual({ kinds: ['changed'], paths: [link], texts: [text] })
      expect(calls).toHaveLength(++count)
    }
  })
})

describe.concurrent('a path that leads elsewhere', () => {
  it('the link of the file is swapped, at once or by removing it first', async test => {
    const { expect } = test
    const folder = scratch(test)
    const link = join(folder, 'link')
    for (const name of ['one', 'two', 'three']) writeFileSync(join(folder, name), name)
    symlinkSync('one', link)
    const { next } = watching(test, [link])
    symlinkSync('two', `${link}.new`)
    renameSync(`${link}.new`, link)
    expect((await next()).texts).toEqual(['two'])
    rmSync(link)
    symlinkSync(join(folder, 'three'), link)
    expect((await next()).texts).toEqual(['three'])
    writeFileSync(join(folder, 'three'), 'its new target is watched')
    expect((await next()).texts).toEqual(['its new target is watched'])
  })

  it('a link to the folder is swapped, as in mounted configuration', async test => {
    const { expect } = test
    const folder = scratch(test)
    for (const version of ['v1', 'v2']) {
      mkdirSync(join(folder, version))
      writeFileSync(join(folder, version, 'cordis.yml'), version)
      writeFileSync(join(folder, version, 'same.yml'), 'same in all')
    }
    symlinkSync('v1', join(folder, '..data'))
    symlinkSync('..data/cordis.yml', join(folder, 'cordis.yml'))
    symlinkSync('..data/same.yml', join(folder, 'same.yml'))
    const { calls, next } = watching(test, [join(folder, 'cordis.yml'), join(folder, 'same.yml')])
    for (const version of ['v2', 'v1']) {
      symlinkSync(version, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
      expect(await next()).toEqual({ kinds: ['changed'], paths: [join(folder, 'cordis.yml')], texts: [version] })
    }
    writeFileSync(join(folder, 'v1', 'same.yml'), 'other')
    expect((await next()).texts).toEqual(['other'])
    expect(calls).toHaveLength(3)
  })

  it('what is written where a link leads by now belongs to the same save', async test => {
    const { expect } = test
    const folder = scratch(test)
    for (const name of ['v1', 'v2']) {
      mkdirSync(join(folder, name))
      writeFileSync(join(folder, name, 'file'), name)
    }
    symlinkSync('v1', join(folder, 'link'))
    const { next } = watching(test, [join(folder, 'link', 'file')])
    symlinkSync('v2', join(folder, 'new'))
    renameSync(join(folder, 'new'), join(folder, 'link'))
    for (const more of [' and', ' more']) {
      await pause(80)
      appendFileSync(join(folder, 'v2', 'file'), more)
    }
    expect((await next()).texts).toEqual(['v2 and more'])
  })

  it('a circle of links is a file that is not there', async test => {
    const { expect } = test
    const folder = scratch(test)
    symlinkSync('b', join(folder, 'a'))
    symlinkSync('a', join(folder, 'b'))
    const { next } = watching(test, [join(folder, 'a')])
    rmSync(join(folder, 'b'))
    writeFileSync(join(folder, 'b'), 'at last')
    expect(await next()).toMatchObject({ kinds: ['created'], texts: ['at last'] })
  })

  it('the folders of a file need not be there', async test => {
    const { expect } = test
    const folder = scratch(test)
    const file = join(folder, 'a', 'b', 'c', 'file')
    const { next } = watching(test, [file])
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, 'one')
    expect(await next()).toMatchObject({ kinds: ['created'], texts: ['one'] })
    writeFileSync(file, 'two')
    expect(await next()).toMatchObject({ kinds: ['changed'], texts: ['two'] })
  })

  it('its folder is removed and made again, moved away and replaced, at any height', async test => {
    const { expect } = test
    const folder = scratch(test)
    const file = join(folder, 'a', 'b', 'c', 'file')
    const write = (text: string) => {
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
    write('zero')
    const { next } = watching(test, [file])
    for (const name of ['a/b/c', 'a/b', 'a']) {
      rmSync(join(folder, name), { recursive: true })
      write(`after removal of ${name}`)
      expect((await next()).texts).toEqual([`after removal of ${name}`])
      renameSync(join(folder, name), join(folder, `${name.replaceAll('/', '-')}-aside`))
      write(`after ${name} went`)
      expect((await next()).texts).toEqual([`after ${name} went`])
      writeFileSync(file, `in the new ${name}`)
      expect((await next()).texts).toEqual([`in the new ${name}`])
    }
  })
})

it.concurrent('what is gone, or empty, is told after a while', async test => {
  const { expect } = test
  const folder = scratch(test)
  const [one, two] = [join(folder, 'one'), join(folder, 'two')]
  writeFileSync(one, '1')
  writeFileSync(two, '2')
  const { next } = watching(test, [one, two], { graceMs: 300 })
  rmSync(one)
  writeFileSync(two, '')
  expect(await next()).toEqual({ kinds: ['removed', 'changed'], paths: [one, two], texts: ['', ''] })
  writeFileSync(one, 'again')
  expect(await next()).toMatchObject({ kinds: ['created'] })
})

it.concurrent('touching a file, or writing what it held, is no change', async test => {
  const { expect } = test
  const folder = scratch(test)
  const file = join(folder, 'file')
  writeFileSync(file, 'same')
  const { next, calls } = watching(test, [file])
  utimesSync(file, 1, 1)
  writeFileSync(file, 'same')
  styles['temporary file and rename']!(file, 'same')
  writeFileSync(file, 'other')
  await next()
  expect(calls).toHaveLength(1)
})

it('changes of many files are told together, of the files that are watched then', async test => {
  const { expect } = test
  const folder = scratch(test)
  const files = Array.from({ length: 2000 }, (_, i) => join(folder, `${i % 20}`, `${i}.ts`))
  for (let i = 0; i < 20; i++) mkdirSync(join(folder, `${i}`))
  for (const file of files) writeFileSync(file, 'one')
  const { watch, next, calls } = watching(test, files)
  for (const file of files) writeFileSync(file, 'two')
  expect((await next()).paths).toEqual(files)
  writeFileSync(files[0]!, 'not told: it is left out before that settles')
  watch.update(files.slice(1))
  writeFileSync(files[7]!, 'three')
  expect((await next()).paths).toEqual([files[7]])
  expect(calls).toHaveLength(2)
})

it.concurrent('a file that never rests is told now and then', async test => {
  const { expect } = test
  const folder = scratch(test)
  const file = join(folder, 'file')
  writeFileSync(file, '')
  const { next } = watching(test, [file], { settleMs: 50 })
  const writer = setInterval(() => appendFileSync(file, 'more\n'), 20)
  test.onTestFinished(() => clearInterval(writer))
  expect((await next()).kinds).toEqual(['changed'])
})

it.concurrent('a listener that throws is reported, and told the next change', async test => {
  const { expect } = test
  const folder = scratch(test)
  const file = join(folder, 'file')
  const changes: FileChange[] = []
  let told = () => {}
  const again = new Promise<void>(resolve => (told = resolve))
  const warnings: string[] = []
  const watch = watchFiles(
    ([change]) => {
      changes.push(change!)
      if (changes.length === 1) throw new Error('no')
      told()
    },
    {
      persistent: true,
      warn: error => {
        warnings.push(error.message)
        writeFileSync(file, 'two')
      },
    },
  )
  test.onTestFinished(() => watch.close())
  watch.update([file])
  writeFileSync(file, 'one')
  await again
  expect(changes.map(({ kind }) => kind)).toEqual(['created', 'changed'])
  expect(warnings).toEqual([expect.stringContaining('STORE_WATCH_LISTENER: a listener failed: no')])
})

it.runIf(process.platform === 'linux')(
  'a folder that cannot be watched is polled, which is said; and watching keeps no process alive',
  async test => {
    const { expect } = test
    const script = fileURLToPath(new URL('fixtures/polled.ts', import.meta.url))
    const command = 'ulimit -n 64; exec "$0" --import tsx "$1" "$2"'
    const { stdout } = await run('sh', ['-c', command, process.execPath, script, join(scratch(test), 'file')])
    const [warning, change] = stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(warning).toEqual({ code: 'STORE_WATCH_POLLING', fix: expect.stringContaining('ulimit -n') })
    expect(change).toEqual({ kind: 'created' })
  },
)
