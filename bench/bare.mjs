/**
 * What the machine and Node cost by themselves: the exchange with `node:http`, server-sent events read, tool calls run
 * with bash, and nothing else. The first request is the one that the harness sends.
 *
 * `node bare.mjs <url> <file with the request>`
 */

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import http from 'node:http'

const [url, file] = process.argv.slice(2)
const request = JSON.parse(readFileSync(file, 'utf8'))
const agent = new http.Agent({ keepAlive: true })

/** Sends the conversation; resolves with the assistant's message. */
function ask() {
  const body = Buffer.from(JSON.stringify(request))
  const headers = { 'content-type': 'application/json', 'content-length': body.length, authorization: 'Bearer x' }
  return new Promise((resolve, reject) => {
    const outgoing = http.request(`${url}/chat/completions`, { method: 'POST', agent, headers }, incoming => {
      const calls = []
      let content = ''
      let rest = ''
      incoming.setEncoding('utf8')
      incoming.on('error', reject)
      incoming.on('end', () => resolve({ role: 'assistant', content, ...(calls.length ? { tool_calls: calls } : {}) }))
      incoming.on('data', text => {
        const lines = (rest + text).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          if (!line.startsWith('data: {')) continue
          const delta = JSON.parse(line.slice(6)).choices[0]?.delta
          content += delta?.content ?? ''
          for (const { index, ...part } of delta?.tool_calls ?? []) {
            calls[index] ??= { id: part.id, type: 'function', function: { name: part.function.name, arguments: '' } }
            calls[index].function.arguments += part.function.arguments ?? ''
          }
        }
      })
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

function bash(command) {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', text => (output += text))
    child.on('error', reject)
    child.on('close', () => resolve(output))
  })
}

for (;;) {
  const message = await ask()
  request.messages.push(message)
  if (!message.tool_calls) {
    process.stdout.write(`${message.content}\n`)
    break
  }
  for (const { id, function: call } of message.tool_calls) {
    const content = await bash(JSON.parse(call.arguments).command)
    request.messages.push({ role: 'tool', tool_call_id: id, content })
  }
}
agent.destroy()
