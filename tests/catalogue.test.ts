import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { renderCatalogue } from '../scripts/catalogue.ts'

it('docs/catalogue.md is what the code says; make it anew with: node --import tsx scripts/catalogue.ts', async () => {
  expect(await renderCatalogue()).toBe(readFileSync(new URL('../docs/catalogue.md', import.meta.url), 'utf8'))
})
