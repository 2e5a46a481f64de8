/** Ends the process once what was written has reached its pipe, whatever handles a plugin may have left behind. */
export async function finish(code) {
  await Promise.all([process.stdout, process.stderr].map(stream => new Promise(done => stream.write('', done))))
  process.exit(code)
}
