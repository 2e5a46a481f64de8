/** A variable's value; an empty one is none, and what every object has is no variable. */
export function ofEnvironment(name: string): string | undefined {
  return Object.hasOwn(process.env, name) ? process.env[name]?.trim() || undefined : undefined
}
