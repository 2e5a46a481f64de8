// Preloaded into every measured process: leaves what it used behind, as the system counted it.
const { writeFileSync } = require('node:fs')
const file = process.env.BENCH_USAGE
delete process.env.BENCH_USAGE
delete process.env.NODE_OPTIONS
process.on('exit', () => {
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  writeFileSync(file, JSON.stringify({ peakKiB: maxRSS, cpuMs: (userCPUTime + systemCPUTime) / 1000 }))
})
