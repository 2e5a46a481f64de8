import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['packages/*/tests/**/*.test.ts', 'examples/*/run.test.ts', 'tests/**/*.test.ts'],
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
})
