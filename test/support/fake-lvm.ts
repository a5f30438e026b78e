/**
 * Fake LVM commands with one thin pool. They validate their arguments as strictly as the real ones. Files stand in for
 * devices.
 */
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'

interface Lv {
  sizeBytes: number
  active: boolean
  /** True for snapshots, which an activation skips unless it is forced (lvmthin(7)). */
  skip: boolean
}

export function fakeLvm(devDir: string, { group = 'vg', thinPool = 'pool', poolBytes = 2 ** 31 } = {}) {
  const volumes = new Map<string, Lv>()
  const file = (lv: string) => join(devDir, group, lv)
  const fail = (program: string, why: string): never => {
    throw new Error(`${program} ended with 5: ${why}`)
  }
  const named = (program: string, spec: string): readonly [string, Lv] => {
    const lv = spec.startsWith(`${group}/`) ? spec.slice(group.length + 1) : fail(program, `invalid path ${spec}`)
    return [lv, volumes.get(lv) ?? fail(program, `Failed to find logical volume "${spec}"`)]
  }
  const checkName = (program: string, lv: string) => {
    if (!/^[a-zA-Z0-9+_.-]{1,127}$/.test(lv) || lv.startsWith('-')) fail(program, `invalid name ${lv}`)
    if (volumes.has(lv)) fail(program, `Logical Volume "${lv}" already exists`)
  }
  /** Activates or deactivates a volume. An inactive volume has no device node, so its file gets another name. */
  const activate = async (lv: string, on: boolean) => {
    const one = volumes.get(lv)
    if (!one || one.active === on) return
    await rename(on ? `${file(lv)}.off` : file(lv), on ? file(lv) : `${file(lv)}.off`)
    one.active = on
  }
  const used = async (lv: string) => {
    const path = existsSync(file(lv)) ? file(lv) : `${file(lv)}.off`
    return (await stat(path)).blocks * 512
  }
  const make = async (lv: string, one: Lv, content: (path: string) => Promise<void>) => {
    await mkdir(join(devDir, group), { recursive: true })
    await content(`${file(lv)}.off`)
    volumes.set(lv, { ...one, active: false })
    if (one.active) await activate(lv, true)
  }
  const commands: Readonly<Record<string, (args: readonly string[]) => Promise<string>>> = {
    async lvs(args) {
      const wanted = '--units b --nosuffix --reportformat json --options lv_name,lv_size,data_percent'
      if (args.join(' ') !== `${wanted} ${group}`) fail('lvs', `unknown arguments ${args.join(' ')}`)
      const percent = (bytes: number, of: number) => ((bytes / of) * 100).toFixed(2)
      const each = [...volumes].map(async ([lv_name, { sizeBytes }]) => ({
        lv_name,
        lv_size: String(sizeBytes),
        data_percent: percent(await used(lv_name), sizeBytes),
      }))
      const lv = await Promise.all(each)
      const all = lv.reduce((sum, one) => sum + (Number(one.data_percent) * Number(one.lv_size)) / 100, 0)
      const pool = { lv_name: thinPool, lv_size: String(poolBytes), data_percent: percent(all, poolBytes) }
      return JSON.stringify({ report: [{ lv: [pool, ...lv] }] })
    },
    async lvcreate(args) {
      const text = args.join(' ')
      const thin = /^--yes --quiet --type thin --virtualsize (\d+)m --thinpool (\S+) --name (\S+) (\S+)$/.exec(text)
      if (thin) {
        const [, size = '', pool, lv = '', vg] = thin
        if (pool !== thinPool || vg !== group) fail('lvcreate', 'no such thin pool')
        checkName('lvcreate', lv)
        const sizeBytes = Number(size) * 2 ** 20
        await make(lv, { sizeBytes, active: true, skip: false }, async path => {
          await writeFile(path, '')
          await truncate(path, sizeBytes)
        })
        return ''
      }
      const fork = /^--yes --quiet --snapshot --setactivationskip n --name (\S+) (\S+)$/.exec(text)
      if (!fork) return fail('lvcreate', `unknown arguments ${text}`)
      const [, lv = '', spec = ''] = fork
      const [origin, { sizeBytes }] = named('lvcreate', spec)
      checkName('lvcreate', lv)
      await make(lv, { sizeBytes, active: true, skip: false }, async path => {
        const source = existsSync(file(origin)) ? file(origin) : `${file(origin)}.off`
        await run('cp', ['--sparse=always', source, path])
      })
      return ''
    },
    async lvremove(args) {
      if (args[0] !== '--yes' || args[1] !== '--quiet' || args.length !== 3) fail('lvremove', 'unknown arguments')
      const [lv] = named('lvremove', args[2] ?? '')
      await rm(file(lv), { force: true })
      await rm(`${file(lv)}.off`, { force: true })
      volumes.delete(lv)
      return ''
    },
    async lvrename([quiet, vg, from = '', to = '', ...rest]) {
      if (quiet !== '--quiet' || vg !== group || rest.length > 0) fail('lvrename', 'unknown arguments')
      const [, one] = named('lvrename', `${group}/${from}`)
      checkName('lvrename', to)
      for (const end of ['', '.off']) if (existsSync(file(from) + end)) await rename(file(from) + end, file(to) + end)
      volumes.delete(from)
      volumes.set(to, one)
      return ''
    },
    async lvchange(args) {
      const [, on, , spec = ''] =
        /^--quiet --activate (y|n)( --ignoreactivationskip)? (\S+)$/.exec(args.join(' ')) ?? []
      if (!on) fail('lvchange', `unknown arguments ${args.join(' ')}`)
      await activate(named('lvchange', spec)[0], on === 'y')
      return ''
    },
    async lvextend(args) {
      const [, size = '', spec = ''] = /^--quiet --size (\d+)m (\S+)$/.exec(args.join(' ')) ?? []
      const [lv, one] = named('lvextend', spec)
      const bytes = Number(size) * 2 ** 20
      if (bytes <= one.sizeBytes) fail('lvextend', 'New size given not larger than existing size')
      one.sizeBytes = bytes
      await truncate(one.active ? file(lv) : `${file(lv)}.off`, bytes)
      return ''
    },
    mke2fs: args => run('mke2fs', args),
  }
  return {
    names: () => [...volumes.keys()],
    run: async (program: string, args: readonly string[]) =>
      (commands[program] ?? (() => fail(program, 'not installed')))(args),
  }
}
