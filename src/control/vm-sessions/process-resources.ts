import { type Static, Type } from 'typebox'
import { int64, list, resource, text, uint32, uuid } from '../http/types.ts'

export const VmProcess = resource(
  'VmProcess',
  {
    pid: uint32({ description: 'Process id in the VM.', examples: [17] }),
    parent_pid: uint32({ description: 'Process id of the parent process.', examples: [1] }),
    user_id: uint32({ description: 'Numeric id of the user that runs the process.', examples: [1000] }),
    state: text({
      description:
        'State of the process as in proc(5): R running, S sleeping, D waiting for a disk, Z zombie, T stopped.',
      examples: ['S'],
    }),
    cpu_ms: int64({
      description: 'CPU time that the process has used since its start, in milliseconds.',
      examples: [1200],
    }),
    memory_kib: int64({ description: 'Resident memory of the process in KiB.', examples: [20480] }),
    command: text({ description: 'Program and arguments, at most 512 bytes.', examples: ['node server.js'] }),
  },
  { description: 'A process in a VM.' },
)
export type VmProcess = Static<typeof VmProcess>

export const VmProcessList = resource(
  'VmProcessList',
  {
    vm_id: uuid({ description: 'Id of the VM.' }),
    processes: list(VmProcess, {
      description: 'At most 2,000 processes, in the order in which the kernel lists them.',
    }),
  },
  { description: 'The processes of a VM.' },
)

export const ProcessQuery = Type.Object({
  vm_id: Type.Optional(uuid({ description: 'Id of the VM. Default: the first running VM of the deployment.' })),
})
