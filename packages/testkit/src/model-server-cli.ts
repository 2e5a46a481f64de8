/**
 * The model server as a process: `tsx packages/testkit/src/model-server-cli.ts --script file.yml [--port 0]`.
 *
 * Prints one line of JSON with its url on standard output when it listens, and one line for each request on standard
 * error with `--verbose`. A signal ends it; it exits with 1 if `--expect-done` is given and the script was not used up
 * or a request did not fit it.
 */

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { errorMessage } from '@cambium/core'
import { parse } from 'yaml'
import { type ModelServerOptions, startModelServer } from './model-server/server.ts'

const OPTIONS = ['replies', 'otherwise', 'strict', 'alternateRoles', 'contextWindow', 'models', 'apiKey'] as const

const HELP = `usage: tsx packages/testkit/src/model-server-cli.ts --script <file.yml> [flags]

A model on this machine whose answers are written in a file: a list of replies, or a map with replies and
${OPTIONS.slice(1).join(', ')}. What a reply may be: packages/testkit/README.md.
Prints {"url": …} when it listens; give that as OPENAI_BASE_URL, with any OPENAI_API_KEY.

  --script <file>   the answers; "otherwise: fine" alone answers everything
  --port <n>        a free one by default
  --verbose         a line on standard error for each request
  --expect-done     exit with 1 unless the answers were used up, and every request fitted
  --help            this text
`

const readFlags = () =>
  parseArgs({
    options: {
      script: { type: 'string' },
      port: { type: 'string', default: '0' },
      verbose: { type: 'boolean', default: false },
      'expect-done': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  }).values

function readScript(file: string): ModelServerOptions {
  const script: unknown = parse(readFileSync(file, 'utf8'))
  if (Array.isArray(script)) return { replies: script }
  if (typeof script !== 'object' || script === null) throw new Error(`${file} is neither a list of replies nor a map`)
  const unknown = Object.keys(script).find(key => !OPTIONS.includes(key as never))
  if (unknown) throw new Error(`${file}: unknown key "${unknown}"; use ${OPTIONS.join(', ')}`)
  return script
}

async function main() {
  const values = readFlags()
  if (values.help) {
    process.stdout.write(HELP)
    return
  }
  if (!values.script) throw new Error('--script <file.yml> is missing; --help has the others')
  const server = await startModelServer({ ...readScript(values.script), port: Number(values.port) })
  process.stdout.write(`${JSON.stringify({ url: server.url })}\n`)
  const stop = async () => {
    await server.close()
    if (!values['expect-done']) return
    try {
      server.expectDone()
    } catch (error) {
      process.stderr.write(`${errorMessage(error)}\n`)
      process.exitCode = 1
    }
  }
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  if (!values.verbose) return
  for (let index = 0; ; index++) {
    const { body, problem } = await server.request(index)
    const messages = (body.messages ?? [body['input']].flat()).length
    process.stderr.write(`${index}: ${body.model}, ${messages} messages${problem ? `, ${problem}` : ''}\n`)
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`model-server: ${errorMessage(error)}\n`)
  process.exitCode = 2
})
