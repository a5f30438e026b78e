import { type Static, Type } from 'typebox'
import { int64, list, resource, text, uint32, uuid } from '../http/types.ts'

export const VmProcess = resource(
  'VmProcess',
  {
    pid: uint32({ description: 'Process id in the VM.', examples: [17] }),
    parent_pid: uint32({ description: 'Process id of its parent.', examples: [1] }),
    user_id: uint32({ description: 'Number of its user.', examples: [1000] }),
    state: text({
      description: 'As in proc(5): R runs, S waits, D waits for a disk, Z has ended, T is stopped.',
      examples: ['S'],
    }),
    cpu_ms: int64({ description: 'CPU time since its start in milliseconds.', examples: [1200] }),
    memory_kib: int64({ description: 'Memory that it has in RAM, in KiB.', examples: [20480] }),
    command: text({ description: 'The program with its arguments, at most 512 bytes.', examples: ['node server.js'] }),
  },
  { description: 'A process in a VM.' },
)
export type VmProcess = Static<typeof VmProcess>

export const VmProcessList = resource(
  'VmProcessList',
  {
    vm_id: uuid({ description: 'The VM.' }),
    processes: list(VmProcess, { description: 'At most 2,000 processes, in the order of the kernel.' }),
  },
  { description: 'The processes of a VM.' },
)

export const ProcessQuery = Type.Object({
  vm_id: Type.Optional(uuid({ description: 'The VM. Default: the first running VM of the deployment.' })),
})
