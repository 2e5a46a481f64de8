/** A tool over two files of its own. Its imports of packages are types only, so that it runs from any folder. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/tools'
import { measure } from './station.ts'

export const name = 'weather'
export const inject = ['tools']

export function apply(ctx: Context) {
  ctx.tools.register({
    name: 'weather',
    description: 'Tells how warm it is in a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    readOnly: true,
    execute: ({ city }: { city: string }) => measure(city),
  })
}
