/** Runs `cambium run` in this process against a model server, with a home and a working folder of its own. */

import { existsSync, readFileSync, watch } from 'node:fs'
import { dirname } from 'node:path'
import { main } from '@cambium/cli'
import {
  type ModelServer,
  type ModelServerOptions,
  startModelServer,
  type TempWorkspace,
  tempWorkspace,
} from '@cambium/testkit'
import { vi } from 'vitest'
import type { Report } from '../src/output.ts'
import { type TestHost, type TestHostOptions, testHost } from './streams.ts'

export interface Bench {
  readonly server: ModelServer
  /** The agent's folder. */
  readonly folder: TempWorkspace
  readonly home: TempWorkspace
  /** Environment for a command in a process of its own. */
  readonly env: Record<string, string>
  start(argv: readonly string[], options?: TestHostOptions): Running
  run(argv: readonly string[], options?: TestHostOptions): Promise<Finished>
  close(): Promise<void>
}

export interface Running {
  readonly host: TestHost
  readonly finished: Promise<Finished>
}

export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  /** Standard output as one JSON object. */
  readonly report: Report
}

/** Every request goes to the server: the environment names it as OpenAI's address. */
export async function openBench(options: ModelServerOptions = {}): Promise<Bench> {
  const server = await startModelServer(options)
  const folder = tempWorkspace()
  const home = tempWorkspace()
  const env = { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'test-key', CAMBIUM_HOME: home.path }
  for (const name of Object.keys(process.env)) if (/_(API_KEY|BASE_URL)$/.test(name)) vi.stubEnv(name, undefined)
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  const start = (argv: readonly string[], hostOptions: TestHostOptions = {}): Running => {
    const host = testHost({ cwd: folder.path, ...hostOptions })
    const model = argv.some(word => word === '--model' || word === '-m') ? [] : ['--model', 'openai/test-model']
    const finished = main(['run', ...model, ...argv], host).then(code => ({
      code,
      stdout: host.stdout.text,
      stderr: host.stderr.text,
      get report() {
        return JSON.parse(host.stdout.text) as Report
      },
    }))
    return { host, finished }
  }
  return {
    server,
    folder,
    home,
    env,
    start,
    run: (argv, hostOptions) => start(argv, hostOptions).finished,
    async close() {
      await server.close()
      folder.dispose()
      home.dispose()
      vi.unstubAllEnvs()
    },
  }
}

/** A line that a program is going to write to a file. */
export async function lineOf(file: string): Promise<string> {
  const read = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
  let resolve: (text: string) => void
  const promise = new Promise<string>(done => {
    resolve = done
  })
  const look = () => {
    const text = read()
    if (text.endsWith('\n')) resolve(text.trim())
  }
  const watcher = watch(dirname(file), look)
  look()
  try {
    return await promise
  } finally {
    watcher.close()
  }
}
