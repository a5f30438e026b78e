import type { AuditLog, JsonValue } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { ChevronLeft, ChevronRight, ScrollText } from 'lucide-react'
import { useState } from 'react'
import { queries } from '../api/queries.ts'
import { useProject } from '../shell/use-project.ts'
import { Button } from '../ui/button.tsx'
import { DialogButton } from '../ui/dialog.tsx'
import { SearchField, useFilter } from '../ui/filter.tsx'
import { controlLook } from '../ui/form.tsx'
import { exactTime, shortId } from '../ui/format.ts'
import { Card, Mono, Page } from '../ui/layout.tsx'
import { Empty, Loaded } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { Ago } from '../ui/time.tsx'

const pageSize = 50
const resourceTypes = [
  ...['account', 'app', 'billing', 'database', 'deployment', 'host', 'invitation', 'member', 'project'],
  ...['security_rule', 'session', 'token', 'volume', 'volume_snapshot'],
] as const

/** Account id in entries that Mote itself caused (src/control/audit/writer.ts). */
const platform = '00000000-0000-0000-0000-000000000000'

export function Audit() {
  const filter = useFilter('audit', ['action', 'resource'])
  const [action, resource] = [filter.of('action'), filter.of('resource')]
  const [offset, setOffset] = useState(0)
  const audit = useQuery(
    queries.audit({ offset, ...(action ? { action } : {}), ...(resource ? { resource_type: resource } : {}) }),
  )
  const project = useProject()
  const members = useQuery({ ...queries.members(project?.tenant_id ?? ''), enabled: project !== undefined })
  const nameOf = (id: string) =>
    id === platform ? 'Mote' : (members.data?.members.find(member => member.user_id === id)?.email ?? shortId(id))
  const choose = (name: string, value: string) => {
    filter.set(name, value)
    setOffset(0)
  }
  return (
    <Page title="Audit log" lead="All changes in this project. Entries are immutable and chained by hashes.">
      <div className="mb-4 flex flex-wrap gap-3">
        <SearchField
          label="Action"
          placeholder="Action, such as app.create"
          value={action}
          onChange={value => choose('action', value)}
          className="w-60"
        />
        <div className="w-48">
          <select
            aria-label="Resource type"
            value={resource}
            onChange={event => choose('resource', event.target.value)}
            className={`${controlLook} border-line-strong`}
          >
            <option value="">All resource types</option>
            {resourceTypes.map(type => (
              <option key={type} value={type}>
                {type.replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        </div>
      </div>
      <Card flush>
        <Loaded query={audit}>
          {({ items, total }) =>
            items.length === 0 ? (
              <Empty icon={ScrollText} title={action || resource ? 'No matching entries' : 'No entries yet'}>
                {action
                  ? 'Enter the full action name, for example app.create.'
                  : 'Every change in this project is recorded here.'}
              </Empty>
            ) : (
              <>
                <AuditTable rows={items} nameOf={nameOf} />
                <div className="flex items-center justify-between border-t border-line px-4 py-2 text-muted">
                  <span className="tabular-nums">
                    {offset + 1}–{offset + items.length} of {total}
                  </span>
                  <span className="flex gap-1">
                    <Button
                      look="quiet"
                      size="smallIcon"
                      aria-label="Newer"
                      reason={offset === 0 ? 'This is the newest page.' : undefined}
                      onClick={() => setOffset(Math.max(0, offset - pageSize))}
                    >
                      <ChevronLeft aria-hidden="true" size={15} />
                    </Button>
                    <Button
                      look="quiet"
                      size="smallIcon"
                      aria-label="Older"
                      reason={offset + items.length >= total ? 'This is the oldest page.' : undefined}
                      onClick={() => setOffset(offset + pageSize)}
                    >
                      <ChevronRight aria-hidden="true" size={15} />
                    </Button>
                  </span>
                </div>
              </>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

function textIn(details: JsonValue, key: string): string {
  const value: unknown = typeof details === 'object' && details !== null ? Reflect.get(details, key) : undefined
  return typeof value === 'string' ? value : ''
}

/** The name of the changed resource if the entry contains it, else its id. */
function subjectOf({ details, resource_id }: AuditLog): string {
  const named = ['name', 'email', 'app'].map(key => textIn(details, key)).find(text => text !== '')
  return named ?? (resource_id ? shortId(resource_id) : '')
}

function AuditTable({ rows, nameOf }: { readonly rows: readonly AuditLog[]; readonly nameOf: (id: string) => string }) {
  return (
    <Table
      label="Audit log, newest first"
      rows={rows}
      keyOf={row => row.id}
      columns={[
        {
          title: 'Action',
          cell: row => (
            <>
              <Mono className="font-medium">{row.action}</Mono>
              <span className="block truncate text-xs text-muted md:hidden">
                {nameOf(row.user_id)} · <Ago at={row.created_at} />
              </span>
            </>
          ),
        },
        {
          title: 'Who',
          wideOnly: true,
          cell: row => <span className="block max-w-48 truncate">{nameOf(row.user_id)}</span>,
        },
        {
          title: 'What',
          wideOnly: true,
          cell: row => (
            <span className="text-muted">
              {row.resource_type.replaceAll('_', ' ')} <Mono>{subjectOf(row)}</Mono>
            </span>
          ),
        },
        { title: 'From', wideOnly: true, cell: row => <Mono className="text-muted">{row.ip_address ?? '–'}</Mono> },
        { title: 'When', at: row => row.created_at },
      ]}
      actionsOf={row => <Details row={row} />}
    />
  )
}

function Details({ row }: { readonly row: AuditLog }) {
  return (
    <DialogButton
      wide
      title={row.action}
      lead={exactTime(new Date(row.created_at))}
      trigger={open => (
        <Button look="quiet" size="small" onClick={open} aria-label={`Details of ${row.action}`}>
          Details
        </Button>
      )}
    >
      {() => (
        <pre
          tabIndex={0}
          aria-label="All fields of the entry"
          className="max-h-[60vh] overflow-auto rounded-md border border-line bg-bg p-3 font-mono text-xs"
        >
          {JSON.stringify(row, null, 2)}
        </pre>
      )}
    </DialogButton>
  )
}
