/**
 * `cambium/loader` of the checkout: `cordis create` links a folder to it when it runs from source, so that tests there
 * find what they would find in the released package. The sources are TypeScript, which stock Node 20 cannot read.
 */

if (!process.features.typescript) {
  for (const api of ['tsx/cjs/api', 'tsx/esm/api']) (await import(api)).register()
}
export const { bootTree, checkTrees, loadTree } = await import('@cambium/loader')
