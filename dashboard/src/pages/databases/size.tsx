/** Size fields of a database's VM, for creation and for resizing. */
import { Choice } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'

const vcpus = [1, 2, 3, 4]
const memoryMib = [512, 1024, 2048, 4096]
const diskMib = [1024, 10_240, 51_200, 102_400]

interface Props {
  /** The current size; selectable even if it is not one of the usual sizes. */
  readonly now?: number
}

const withNow = (sizes: readonly number[], now: number | undefined) =>
  [...new Set([...sizes, ...(now === undefined ? [] : [now])])].toSorted((a, b) => a - b)

export const VcpuChoice = ({ now }: Props) => (
  <Choice label="vCPUs" name="vcpus" defaultValue={now ?? 1}>
    {withNow(vcpus, now).map(count => (
      <option key={count}>{count}</option>
    ))}
  </Choice>
)

const sizes = (values: readonly number[]) =>
  values.map(size => (
    <option key={size} value={size}>
      {mib(size)}
    </option>
  ))

export const MemoryChoice = ({ now }: Props) => (
  <Choice label="Memory" name="memory_mib" defaultValue={now ?? 1024}>
    {sizes(withNow(memoryMib, now))}
  </Choice>
)

export const DiskChoice = () => (
  <Choice label="Disk" name="disk_mib" defaultValue={10_240}>
    {sizes(diskMib)}
  </Choice>
)
