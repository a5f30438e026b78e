/**
 * The minimal program that gets the status of VMs: connects to the QMP sockets of all QEMUs in the given directories
 * concurrently, and queries the status of each.
 */
import { connect } from 'node:net'

const ask = (dir: string) =>
  new Promise<void>((resolve, reject) => {
    process.chdir(dir) // Use a relative path, because a socket path is limited to 107 characters.
    const socket = connect('qmp.sock')
    let answers = 0
    socket.on('error', reject)
    socket.on('data', chunk => {
      // QMP sends three lines: the greeting and two responses.
      answers += chunk.toString().split('\n').length - 1
      if (answers < 3) return
      socket.destroy()
      resolve()
    })
    socket.write('{"execute":"qmp_capabilities"}\n{"execute":"query-status"}\n')
  })

await Promise.all(process.argv.slice(2).map(ask))
