/** What every command that mounts or shows the tree can be told about its layers. */

import { resolve } from 'node:path'
import type { CommandLine, FlagTable } from '../flags.ts'
import type { LayerOptions } from './layer.ts'

export const LAYER_FLAGS: FlagTable = {
  set: { value: '<id.path=value>', many: true, help: 'change a value of the tree, as --set loop.model=openai/gpt-5' },
  patch: { value: '<file>', many: true, help: 'lay a patch file over the tree' },
  'no-layers': { help: "without your cordis.patch.yml and the project's; also CAMBIUM_NO_LAYERS=1" },
  'no-project': { help: "without the project's .cambium/cordis.patch.yml" },
}

/** `folder` is where the command was started, which the flags' files are relative to; `cwd` where it works. */
export function layerOptions(
  { flags }: CommandLine,
  env: LayerOptions['env'],
  folder: string,
  cwd: string,
): LayerOptions {
  return {
    cwd,
    env,
    patch: (flags.get('patch') ?? []).map(file => resolve(folder, file)),
    set: flags.get('set') ?? [],
    without:
      flags.has('no-layers') || isOn(env['CAMBIUM_NO_LAYERS']) ? 'all' : flags.has('no-project') ? 'project' : 'none',
  }
}

const isOn = (value: string | undefined) => value !== undefined && !/^(|0|false|no)$/i.test(value.trim())
