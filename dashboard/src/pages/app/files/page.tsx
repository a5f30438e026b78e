/** The files of the app's VM. */
import type { VmFile } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { CornerDownRight, Download, File as FileIcon, Folder, FolderOpen, ServerOff, Upload } from 'lucide-react'
import { type DragEvent, useRef, useState } from 'react'
import { queries, refreshAll } from '../../../api/queries.ts'
import { attempt } from '../../../ui/action.tsx'
import { cx } from '../../../ui/cx.ts'
import { bytes } from '../../../ui/format.ts'
import { Card, Mono } from '../../../ui/layout.tsx'
import { AddButton, IconButton } from '../../../ui/row-actions.tsx'
import { Empty, Loaded, Notice } from '../../../ui/states.tsx'
import { Table } from '../../../ui/table.tsx'
import { Button } from '../../../ui/button.tsx'
import { liveOf } from '../live.ts'
import { useApp } from '../use-app.ts'
import { ConfirmReplace, NewFolder, Remove, Rename } from './dialogs.tsx'
import { crumbsOf, inDirectory, inOrder, isDirectory, isReadable, pathOfSearch } from './path.ts'
import { download, type Place, upload } from './transfer.ts'
import { Transfers } from './transfers.tsx'

export function Files() {
  const app = useApp()
  const active = useQuery(queries.active())
  return (
    <Loaded query={active}>
      {all => {
        const live = liveOf(app, all)
        if (live)
          return <Browser place={{ app_name: app.name, job_id: live.job_id, vm_id: live.vm_id }} key={live.vm_id} />
        return (
          <Card flush>
            <Empty icon={ServerOff} title="No virtual machine is running">
              Files are read from a running virtual machine. Deploy the app, or wake it with a request.
            </Empty>
          </Card>
        )
      }}
    </Loaded>
  )
}

function Browser({ place }: { readonly place: Place }) {
  const { at } = useSearch({ from: '/shell/apps/$app/files' })
  const directory = pathOfSearch(at)
  const list = useQuery(queries.files(place, directory))
  const { sendAll, asking } = useUploads(place, directory, list.data?.entries ?? [])
  const [isOver, setOver] = useState(false)
  const drag = (over: boolean) => (event: DragEvent) => {
    if (!event.dataTransfer.types.includes('Files')) return
    event.preventDefault()
    setOver(over)
  }
  return (
    <div
      onDragEnter={drag(true)}
      onDragOver={drag(true)}
      onDragLeave={drag(false)}
      onDrop={event => {
        drag(false)(event)
        sendAll([...event.dataTransfer.files])
      }}
      className={cx('rounded-lg', isOver && 'outline-2 outline-offset-2 outline-accent outline-dashed')}
    >
      <Card flush>
        <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2">
          <Crumbs app={place.app_name} directory={directory} />
          <span className="flex gap-2">
            <UploadButton onFiles={sendAll} />
            <NewFolder place={place} directory={directory} />
          </span>
        </div>
        <Transfers />
        <Loaded query={list}>
          {({ entries, complete }) => (
            <>
              {!complete && (
                <div className="p-3">
                  <Notice tone="warn">
                    This folder has more entries than are shown here. Use the terminal for the rest.
                  </Notice>
                </div>
              )}
              {entries.length === 0 ? (
                <Empty icon={FolderOpen} title="This folder is empty">
                  Drop files here, or upload them.
                </Empty>
              ) : (
                <Entries key={directory} place={place} entries={entries} />
              )}
            </>
          )}
        </Loaded>
        <Space place={place} directory={directory} />
      </Card>
      {asking}
    </div>
  )
}

/** Uploads files one after the other, after confirmation if any of them exist. */
function useUploads(place: Place, directory: string, entries: readonly VmFile[]) {
  const [waiting, setWaiting] = useState<readonly File[]>([])
  const send = async (files: readonly File[]) => {
    for (const file of files) await attempt(() => upload(place, inDirectory(directory, file.name), file))
    await refreshAll('files')
  }
  const known = new Set(entries.map(({ name }) => name))
  const names = waiting.map(({ name }) => name).filter(name => known.has(name))
  const close = () => setWaiting([])
  return {
    sendAll(files: readonly File[]) {
      if (files.some(({ name }) => known.has(name))) setWaiting(files)
      else void send(files)
    },
    asking: names.length > 0 && (
      <ConfirmReplace
        names={names}
        close={close}
        confirm={() => {
          close()
          void send(waiting)
        }}
      />
    ),
  }
}

function Crumbs({ app, directory }: { readonly app: string; readonly directory: string }) {
  const crumbs = crumbsOf(directory)
  return (
    <nav aria-label="Folder" className="min-w-0">
      <ol className="flex min-w-0 flex-wrap items-center gap-x-1 font-mono text-xs">
        {crumbs.map(({ name, path }, at) => (
          <li key={path} className="flex min-w-0 items-center gap-1">
            {at > 1 && (
              <span aria-hidden="true" className="text-faint">
                /
              </span>
            )}
            {at === crumbs.length - 1 ? (
              <span aria-current="page" className="px-1 py-1 break-all">
                {name}
              </span>
            ) : (
              <Link
                to="/apps/$app/files"
                params={{ app }}
                search={{ at: path }}
                aria-label={name === '/' ? 'Root folder' : name}
                className="rounded px-1 py-1 text-muted hover:bg-hover hover:text-text"
              >
                {name}
              </Link>
            )}
          </li>
        ))}
      </ol>
    </nav>
  )
}

function UploadButton({ onFiles }: { readonly onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={event => {
          onFiles([...(event.currentTarget.files ?? [])])
          event.currentTarget.value = ''
        }}
      />
      <AddButton text="Upload" icon={Upload} look="primary" onClick={() => input.current?.click()} />
    </>
  )
}

/** Number of file rows to add at a time: thousands of rows at once would take a second to render. */
const step = 300

function Entries({ place, entries }: { readonly place: Place; readonly entries: readonly VmFile[] }) {
  const [most, setMost] = useState(step)
  const sorted = inOrder(entries)
  return (
    <>
      <Table
        label="Files"
        rows={sorted.slice(0, most)}
        keyOf={({ encoded_path }) => encoded_path}
        columns={[
          { title: 'Name', className: 'w-full max-w-0', cell: file => <Name place={place} file={file} /> },
          {
            title: 'Size',
            right: true,
            className: 'whitespace-nowrap',
            cell: file => (file.type === 'file' ? bytes(file.size_bytes) : ''),
          },
          { title: 'Changed', className: 'whitespace-nowrap', at: file => file.modified_at },
          { title: 'Mode', wideOnly: true, cell: file => <Mono className="text-muted">{file.mode}</Mono> },
        ]}
        actionsOf={file => (
          <>
            {isReadable(file) && (
              <IconButton icon={Download} label={`Download ${file.name}`} onClick={() => void get(place, file)} />
            )}
            <Rename place={place} file={file} />
            <Remove place={place} file={file} />
          </>
        )}
      />
      {sorted.length > most && (
        <div className="border-t border-line p-3 text-center">
          <Button size="small" onClick={() => setMost(most + step)}>
            Show more of {sorted.length} entries
          </Button>
        </div>
      )}
    </>
  )
}

const get = (place: Place, file: VmFile) => attempt(() => download(place, file.encoded_path, file.name))

function Name({ place, file }: { readonly place: Place; readonly file: VmFile }) {
  const Icon = isDirectory(file) ? Folder : FileIcon
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Icon
        aria-hidden="true"
        size={15}
        className={cx('shrink-0', isDirectory(file) ? 'text-accent-text' : 'text-faint')}
      />
      {isDirectory(file) ? (
        <Link
          to="/apps/$app/files"
          params={{ app: place.app_name }}
          search={{ at: file.encoded_path }}
          className="truncate font-medium hover:underline"
        >
          {file.name}
        </Link>
      ) : (
        <span className="truncate">{file.name}</span>
      )}
      {file.target !== null && (
        <span className="flex min-w-0 items-center gap-1 text-xs text-muted">
          <CornerDownRight aria-label="leads to" size={11} className="shrink-0" />
          <span className="truncate">{file.target}</span>
        </span>
      )}
    </span>
  )
}

function Space({ place, directory }: { readonly place: Place; readonly directory: string }) {
  const { data } = useQuery(queries.fileSpace(place, directory))
  if (!data) return undefined
  return (
    <p className="border-t border-line px-4 py-2 text-xs text-muted">
      {bytes(data.available_bytes)} of {bytes(data.size_bytes)} free in this file system
    </p>
  )
}
