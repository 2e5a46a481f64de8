/** The installation of the released form: rows and imports of our names lead to the modules of this package. */

import table from 'release:table'
import { setInstallation } from '@cambium/loader'

/** The package's folder; this module becomes a part of files two folders below it. */
const home = new URL('../../', import.meta.url).href
const inHome = files => Object.fromEntries(Object.entries(files).map(([name, file]) => [name, home + file]))
const urls = { own: inHome(table.own), lent: inHome(table.lent) }

let hooked = false

setInstallation({
  resolve: specifier => urls.own[specifier] ?? urls.lent[specifier],
  owns: specifier => Object.hasOwn(urls.own, specifier),
  async prepare(url) {
    if (url.startsWith(home)) return
    // Module hooks cost more than a small tree takes to start, so that only a row from outside brings them.
    const outside = await import(`${home}lib/outside.mjs`)
    if (!hooked) outside.hook(urls)
    hooked = true
    await outside.readyForRequire(
      url,
      table.doors.map(name => urls.own[name]),
    )
  },
})
