import { readdir, readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { identifyProcess, type ProcessIdentity } from '../../../lib/process-identity.ts'
import { deviceGroup, makeRunDir, runDir, type VmUser } from '../isolation.ts'
import { spawnVmm, type VmmNetwork, type VmmProcess } from '../process.ts'
import type { VmmCell } from '../vmm/cell.ts'
import { type VmmHttp, vmmHttp } from '../vmm-http.ts'

export const title = 'Cloud Hypervisor'

export const apiSocket = 'api.sock'
export const vsockSocket = 'vsock.sock'
export const consoleSocket = 'console.sock'

const devices = ['/dev/kvm', '/dev/net/tun']

/** Returns the user that Cloud Hypervisor can run as with access to its devices. Undefined if only root has access. */
export function cellUser(user: VmUser | undefined): VmUser | undefined {
  const gid = user && deviceGroup(devices, user.uid)
  return user && gid !== undefined ? { uid: user.uid, gid } : undefined
}

export async function makeCell(vmDir: string, user: VmUser | undefined): Promise<VmmCell> {
  return { dir: await makeRunDir(vmDir, user), user }
}

/** Starts a VMM without a VM; it listens on its API socket. Seccomp is on by default; the option only confirms that. */
export function spawnCloudHypervisor(
  vmDir: string,
  cell: VmmCell,
  program: string,
  network: VmmNetwork,
): Promise<VmmProcess> {
  const args = ['--api-socket', `path=${apiSocket}`, '--seccomp', 'true']
  const user = cell.user ? { user: cell.user } : {}
  return spawnVmm({ name: title, program, args, dir: vmDir, cwd: cell.dir, env: {}, network, ...user })
}

const base = '/api/v1'

/** Cloud Hypervisor's API (vmm/src/api/openapi/cloud-hypervisor.yaml, v53), with paths below `/api/v1`. */
export function cloudHypervisorApi(vmDir: string): VmmHttp {
  const http = vmmHttp(title, join(vmDir, runDir), apiSocket)
  return { call: (method, path, body, options) => http.call(method, `${base}${path}`, body, options) }
}

/** Finds the VM's VMM processes by their working directory, which is the VM's jail directory (`VmmCell`). */
export async function processesIn(vmDir: string): Promise<ProcessIdentity[]> {
  const cell = await realpath(join(vmDir, runDir)).catch(() => undefined)
  const found: ProcessIdentity[] = []
  for (const name of cell === undefined ? [] : await readdir('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid) || (await readlink(`/proc/${pid}/cwd`).catch(() => '')) !== cell) continue
    const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    const identity = args.includes(apiSocket) ? identifyProcess(pid) : undefined
    if (identity) found.push(identity)
  }
  return found
}
