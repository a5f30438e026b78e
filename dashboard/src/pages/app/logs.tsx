import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Choice, Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Log } from '../../ui/log.tsx'
import { saveBlob } from '../../ui/save.ts'
import { type LogFilter, pastLines } from './past-logs.ts'
import { useApp } from './use-app.ts'

/** Number of past lines that the live view loads first. */
const tail = 1000

const ranges = {
  live: 'Live',
  '15m': 'Last 15 minutes',
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
  all: 'All retained lines',
} as const
const isRange = (value: string): value is keyof typeof ranges => value in ranges
const isSource = (value: string | undefined): value is 'app' | 'platform' => value === 'app' || value === 'platform'

export function Logs() {
  const app = useApp()
  const { deployment } = useSearch({ from: '/shell/apps/$app/logs' })
  const navigate = useNavigate()
  const deployments = useQuery(queries.deployments(app.name))
  const [range, setRange] = useState<keyof typeof ranges>('live')
  const [chosen, setChosen] = useState<Omit<LogFilter, 'since' | 'deployment'>>({})
  const isLive = range === 'live'
  const given = { ...chosen, deployment, since: isLive || range === 'all' ? undefined : range }
  const filter: LogFilter = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  const download = async () =>
    saveBlob(await (await api.downloadAppLogs({ app_name: app.name, query: filter })).blob(), `${app.name}.log`)
  const known = deployments.data ?? []

  return (
    <Card flush className="overflow-hidden">
      <Form
        submit="Search"
        look="plain"
        wide
        key={deployment}
        className="grid grid-cols-2 items-end gap-2 *:mb-0! border-b border-line px-3 py-2 md:grid-cols-[1fr_1fr_1fr_1fr_1.5fr_auto]"
        send={async values => {
          const when = values.text('range')
          const source = values.optional('source')
          setRange(isRange(when) ? when : 'live')
          setChosen({
            ...(isSource(source) ? { source } : {}),
            ...(values.optional('replica') ? { replica: values.text('replica').trim() } : {}),
            ...(values.optional('text') ? { text: values.text('text') } : {}),
          })
          const job = values.optional('deployment')
          await navigate({
            to: '/apps/$app/logs',
            params: { app: app.name },
            search: job === undefined ? {} : { deployment: job },
            replace: true,
          })
        }}
      >
        <Choice label="Time" name="range" defaultValue={range}>
          {Object.entries(ranges).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </Choice>
        <Choice label="Deployment" name="deployment" defaultValue={deployment ?? ''}>
          <option value="">All</option>
          {deployment !== undefined && !known.some(one => one.job_id === deployment) && (
            <option value={deployment}>{deployment}</option>
          )}
          {known.map(one => (
            <option key={one.id} value={one.job_id}>
              {one.image_tag || one.job_id} ({one.status})
            </option>
          ))}
        </Choice>
        <Choice label="Source" name="source" defaultValue={chosen.source ?? ''}>
          <option value="">All</option>
          <option value="app">App</option>
          <option value="platform">Platform</option>
        </Choice>
        <Field
          label="VM"
          name="replica"
          mono
          autoComplete="off"
          placeholder="id, or its end"
          pattern="[1-9][0-9]{0,2}|[0-9a-f\-]{6,36}"
          title="The id of a VM, or its last 6 characters or more"
          defaultValue={chosen.replica}
        />
        <Field label="Contains" name="text" type="search" maxLength={200} defaultValue={chosen.text} />
      </Form>
      <Log
        source={JSON.stringify([app.name, range, filter])}
        name={app.name}
        isLive={isLive}
        open={options =>
          isLive
            ? api.streamAppLogs({ app_name: app.name, query: { tail, ...filter } }, options)
            : pastLines(app.name, filter, options)
        }
        download={download}
        className="h-[calc(100dvh-22rem)] min-h-96"
      />
    </Card>
  )
}
