import { X } from 'lucide-react'
import { useStore } from '../../../api/store.ts'
import { bytes } from '../../../ui/format.ts'
import { IconButton } from '../../../ui/row-actions.tsx'
import { transfers } from './transfer.ts'

/** Shows the progress of running uploads and downloads. */
export function Transfers() {
  const running = useStore(transfers)
  if (running.length === 0) return undefined
  return (
    <ul aria-label="Transfers" className="divide-y divide-line border-b border-line">
      {running.map(({ id, kind, name, doneBytes, totalBytes, cancel }) => (
        <li key={id} className="flex items-center gap-3 px-4 py-2 text-sm">
          <span className="min-w-0 flex-1">
            <span className="flex justify-between gap-3">
              <span className="truncate">
                {kind} {name}
              </span>
              <span className="shrink-0 text-xs text-muted tabular-nums">
                {bytes(doneBytes)}
                {totalBytes !== undefined && ` of ${bytes(totalBytes)}`}
              </span>
            </span>
            <progress
              aria-label={`${kind} ${name}`}
              {...(totalBytes === undefined ? {} : { max: Math.max(1, totalBytes), value: doneBytes })}
              className="mt-1 h-1.5 w-full accent-accent"
            />
          </span>
          <IconButton icon={X} label={`Cancel ${name}`} onClick={cancel} />
        </li>
      ))}
    </ul>
  )
}
