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

/** The user whose rights it can have: one that may open what it opens. Undefined: only root may. */
export function cellUser(user: VmUser | undefined): VmUser | undefined {
  const gid = user && deviceGroup(devices, user.uid)
  return user && gid !== undefined ? { uid: user.uid, gid } : undefined
}

export async function makeCell(vmDir: string, user: VmUser | undefined): Promise<VmmCell> {
  return { dir: await makeRunDir(vmDir, user), user }
}

/** An empty VMM that waits for orders on its socket. Seccomp is on by default; said all the same. */
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

/** Its API (vmm/src/api/openapi/cloud-hypervisor.yaml, v53), with paths below `/api/v1`. */
export function cloudHypervisorApi(vmDir: string): VmmHttp {
  const http = vmmHttp(title, join(vmDir, runDir), apiSocket)
  return { call: (method, path, body, options) => http.call(method, `${base}${path}`, body, options) }
}

/** Processes that work in this VM's cell: whoever does is its VMM. */
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
