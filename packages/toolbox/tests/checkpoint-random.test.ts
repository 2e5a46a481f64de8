/** Random histories of turns, by the file tools and by bash, and the exact tree of any of them. */

import { rmSync } from 'node:fs'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openBench, sh, treeOf } from './checkpoint-bench.ts'

const PATHS = ['a', 'b.txt', 'd/a', 'd/b', 'd/e/c', 'new', 'n/x', 'n/y/z', '"q" $x', 'dà']
const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
const path = fc.constantFrom(...PATHS)
const content = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.constantFrom('one\r\ntwo\r\n', '\ufeffbom', 'x'.repeat(9_000)),
  fc.string({ unit: 'binary', maxLength: 20 }),
)

const commands = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(path, fc.uint8Array({ maxLength: 12 })).map(([to, bytes]) => {
      const escaped = [...bytes].map(byte => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
      return `mkdir -p "$(dirname ${quote(to)})"; printf ${quote(escaped)} > ${quote(to)}`
    }),
  },
  { weight: 3, arbitrary: path.map(from => `rm -rf ${quote(from)}`) },
  { weight: 2, arbitrary: fc.tuple(path, path).map(([from, to]) => `mv ${quote(from)} ${quote(to)}`) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(path, fc.constantFrom('755', '644', '600', '444', '1755'))
      .map(([to, mode]) => `chmod ${mode} ${quote(to)}`),
  },
  { weight: 2, arbitrary: fc.tuple(path, path).map(([to, link]) => `ln -sfn ${quote(to)} ${quote(link)}`) },
  fc.tuple(path, path).map(([from, to]) => `cp -a ${quote(from)} ${quote(to)}`),
  fc.tuple(path, path).map(([from, to]) => `ln -f ${quote(from)} ${quote(to)}`),
  path.map(to => `echo more >> ${quote(to)}`),
  fc.constantFrom(
    'mkdir -p empty/deep',
    'rmdir empty/deep',
    'rm -rf d',
    'rm -rf *',
    'mv d e; mv e d',
    'git add -A',
    'git checkout -f .',
    'git clean -fdq',
    'touch .gitignore',
  ),
)

const call = fc.oneof(
  fc.tuple(path, content).map(([file_path, text]): [string, object] => ['write', { file_path, content: text }]),
  path.map((file_path): [string, object] => [
    'edit',
    { file_path, old_string: 'o', new_string: '0', replace_all: true },
  ]),
  fc
    .array(commands, { minLength: 1, maxLength: 4 })
    .map((lines): [string, object] => ['bash', { command: lines.join('; ') }]),
)

const history = fc.record({
  turns: fc.array(fc.array(call, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 }),
  to: fc.nat(3),
  git: fc.boolean(),
  copyBytes: fc.constantFrom(0, 2 ** 20),
})

it('any turn of any history comes back, byte for byte, and can be undone', { timeout: 3_600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(history, async ({ turns, to, git, copyBytes }) => {
      const bench = await openBench({
        files: { a: 'one\n', 'b.txt': 'two\r\n', 'd/a': Buffer.from([0, 255, 128]), 'd/e/c': 'deep', run: '#!' },
        git,
        limits: { copyBytes },
        stored: false,
      })
      sh(bench.dir, 'chmod 755 run; ln -s a link; ln run twin; mkdir none')
      const trees: string[][] = []
      for (const calls of turns) {
        trees.push(treeOf(bench.dir))
        await bench.turn(...calls)
      }
      const end = treeOf(bench.dir)
      const last = bench.log.seq - 1
      const turn = 1 + (to % turns.length)
      const report = await bench.restore(bench.before(turn))
      expect(report).toMatchObject({ conflicts: [], unknown: [], notices: [] })
      expect(treeOf(bench.dir)).toEqual(trees[turn - 1])
      expect(await bench.restore(last)).toMatchObject({ conflicts: [], unknown: [] })
      expect(treeOf(bench.dir)).toEqual(end)
      await bench.ctx.fiber.dispose()
      rmSync(bench.dir, { recursive: true, force: true })
    }),
    { numRuns: Number(process.env['CHECKPOINT_RUNS'] ?? 12) },
  )
})
