/**
 * The minimal program that learns about VMs: connects to each QMP socket in the given directories concurrently and
 * queries its status.
 */
import { connect } from 'node:net'

const ask = (dir: string) =>
  new Promise<void>((resolve, reject) => {
    process.chdir(dir) // a socket path is limited to 107 characters
    const socket = connect('qmp.sock')
    let answers = 0
    socket.on('error', reject)
    socket.on('data', chunk => {
      // The greeting and two answers, one line each.
      answers += chunk.toString().split('\n').length - 1
      if (answers < 3) return
      socket.destroy()
      resolve()
    })
    socket.write('{"execute":"qmp_capabilities"}\n{"execute":"query-status"}\n')
  })

await Promise.all(process.argv.slice(2).map(ask))
