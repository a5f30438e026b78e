import type { App, UpdateAppRequest } from '@mote/client'
import type { ReactNode } from 'react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { Form, type Values } from '../../ui/form.tsx'
import { toast } from '../../ui/toast.tsx'

/** A form that changes some settings of an app. */
export function SettingsForm({
  app,
  changes,
  children,
}: {
  readonly app: App
  readonly changes: (values: Values) => Partial<UpdateAppRequest>
  readonly children: ReactNode
}) {
  return (
    <Form
      className="max-w-xl"
      submit="Save"
      send={async values => {
        await api.updateApp({ app_name: app.name, body: { port: app.port, ...changes(values) } })
        await refreshAll('app', 'apps')
        toast({ tone: 'good', title: 'Settings saved' })
      }}
    >
      {children}
    </Form>
  )
}
