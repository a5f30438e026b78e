/** The least that can know of VMs: connects to each QMP socket in the given directories, all at once, and asks for its status. */
import { connect } from 'node:net'

const ask = (dir: string) =>
  new Promise<void>((resolve, reject) => {
    process.chdir(dir) // a socket's path may have 107 characters
    const socket = connect('qmp.sock')
    let answers = 0
    socket.on('error', reject)
    socket.on('data', chunk => {
      // The greeting, then two answers; each is a line.
      answers += chunk.toString().split('\n').length - 1
      if (answers < 3) return
      socket.destroy()
      resolve()
    })
    socket.write('{"execute":"qmp_capabilities"}\n{"execute":"query-status"}\n')
  })

await Promise.all(process.argv.slice(2).map(ask))
