/** `defineTool`: a definition whose code is typed by its parameters. */

import { HarnessError, type JsonValue } from '@cambium/core'
import { registerLenient } from './arguments.ts'
import type { ToolDefinition, ToolOutput, ToolResultValue, ToolRunContext } from './definition.ts'
import { fill } from './fill.ts'
import {
  type InferArguments,
  type InferValue,
  type ParameterMap,
  parametersSchema,
  type ValueSpec,
  valueSchema,
} from './parameters.ts'
import { deepFreeze } from './result.ts'
import { check } from './validate.ts'

type Output<O> = O extends undefined ? ToolOutput : InferValue<O> | ToolResultValue

export interface TypedTool<P extends ParameterMap, O extends ValueSpec | undefined>
  extends Omit<ToolDefinition, 'parameters' | 'output' | 'execute' | 'isConcurrencySafe' | 'presentCall'> {
  readonly parameters: P
  /** False refuses arguments that `parameters` does not name; by default they are ignored. */
  readonly additionalProperties?: boolean
  /** The shape of the canonical value; types what `execute` may return. */
  readonly output?: O
  isConcurrencySafe?(args: InferArguments<P>): boolean
  presentCall?(args: InferArguments<P>): string
  execute(args: InferArguments<P>, exec: ToolRunContext): Promise<Output<O>> | Output<O>
}

/**
 * Makes a definition for `ctx.tools.register`. `parameters` maps names to specs; `args` is typed by it and frozen.
 *
 * Nothing is coerced: `"5"` for an integer is an error that says so. Two things make it easier for a model, and only the
 * tool's own code sees them, never policy or the log: null for an optional parameter counts as left out, and what is
 * left out takes the spec's `default`.
 *
 * @throws `TOOL_INVALID` naming a parameter whose spec is wrong
 */
export function defineTool<const P extends ParameterMap, const O extends ValueSpec | undefined = undefined>(
  tool: TypedTool<P, O>,
): ToolDefinition {
  const { parameters, additionalProperties, output, isConcurrencySafe, presentCall, execute, ...rest } = tool
  let schema: ReturnType<typeof parametersSchema>
  try {
    schema = deepFreeze(parametersSchema(parameters, additionalProperties))
  } catch (error) {
    if (!(error instanceof HarnessError)) throw error
    throw new HarnessError(error.code, `tool "${tool.name}": ${error.problem}`, { fix: error.fix, cause: error.cause })
  }
  registerLenient(schema)
  // The types of a generic map cannot be followed here; that the schema stands for them is what `parameters.ts` is for.
  const typed = (args: JsonValue): never => deepFreeze(fill(schema, args)) as never
  const valid = (args: JsonValue) => !check(schema, args, { root: '', nullIsAbsent: true }).length
  return {
    ...rest,
    parameters: schema,
    ...(output ? { output: deepFreeze(valueSchema(output, 'output') as typeof schema) } : {}),
    ...(isConcurrencySafe
      ? { isConcurrencySafe: (args: JsonValue) => valid(args) && isConcurrencySafe.call(tool, typed(args)) === true }
      : {}),
    ...(presentCall
      ? { presentCall: (args: JsonValue) => (valid(args) ? presentCall.call(tool, typed(args)) : tool.name) }
      : {}),
    execute: (args: JsonValue, exec: ToolRunContext) => execute.call(tool, typed(args), exec) as ToolOutput,
  } as ToolDefinition
}
