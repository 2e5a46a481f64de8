/** Makes one file of a test's child program and all it imports, so that hundreds of processes can be started quickly. */

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Bundles a program from its TypeScript source: a process of it is ready in a tenth of a second, where one that compiles
 * its sources takes two. The built-in modules stay what they are, so that a child can still replace their functions.
 * Answers the file to run with Node; its folder is the caller's to remove.
 */
export async function bundledChild(entry: URL): Promise<{ file: string; folder: string }> {
  const { build } = await import('esbuild')
  const folder = mkdtempSync(join(tmpdir(), 'cambium-child-'))
  const path = fileURLToPath(entry)
  await build({
    entryPoints: [path],
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    // What is imported on first use stays outside of what each start reads.
    splitting: true,
    minifySyntax: true,
    minifyWhitespace: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'error',
    // What is CommonJS inside asks for built-in modules by `require`, which an ES module has to make for itself.
    banner: { js: "import { createRequire as __make } from 'node:module'; const require = __make(import.meta.url);" },
  })
  return { file: join(folder, `${basename(path, '.ts')}.mjs`), folder }
}
