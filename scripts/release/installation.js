/** The installation of the released form: rows and imports of our names lead to the modules of this package. */

import { fileURLToPath } from 'node:url'
import table from 'release:table'
import tree from 'release:tree'
import { setInstallation } from '@cambium/loader'
import { load } from 'runtime'

/** The package's folder; the code that runs lies in `lib/code/`. */
const home = new URL('../../', import.meta.url).href
const inHome = files => Object.fromEntries(Object.entries(files).map(([name, { file }]) => [name, home + file]))
const urls = { own: inHome(table.own), lent: inHome(table.lent) }
const ids = new Map(Object.values(table.own).map(({ file, id }) => [home + file, id]))

let hooked = false

setInstallation({
  resolve: specifier => urls.own[specifier] ?? urls.lent[specifier],
  parsed: text => (text === tree.text ? tree.value : undefined),
  owns: specifier => Object.hasOwn(urls.own, specifier),
  load: url => {
    const id = ids.get(url)
    return id && load(id)
  },
  scaffold: { templates: fileURLToPath(new URL('templates', home)), links: { cambium: fileURLToPath(home) } },
  shipped: async () => (await import('release:shipped')).default,
  async prepare(url) {
    // Module hooks cost more than a small tree takes to start, so that only a row from outside brings them.
    const outside = await import(`${home}lib/outside.mjs`)
    if (!hooked) outside.hook(urls)
    hooked = true
    await outside.readyForRequire(
      url,
      table.doors.map(name => urls.own[name] ?? urls.lent[name]),
    )
  },
})
