/** YAML files that people write and programs change: read with places, changed with everything else kept. */

export { type EditOptions, editYaml, type YamlEdit } from './yaml/edit.ts'
export { type Model, type ModelEntry, Tagged } from './yaml/model.ts'
export { type ParsedYaml, parseYaml } from './yaml/parse.ts'
