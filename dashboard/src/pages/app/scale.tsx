import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Form, NumberField } from '../../ui/form.tsx'
import { plural } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { Notice } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { Toggle } from '../../ui/toggle.tsx'
import { useApp } from './use-app.ts'

/** Limits of the server for the number of replicas. */
const replicas = { min: 0, max: 1000 }
const percentage = { min: 1, max: 100 }

export function Scale() {
  const app = useApp()
  const billing = useQuery(queries.billing())
  const [isAutomatic, setAutomatic] = useState(app.autoscaling_enabled)
  const isAllowed = billing.data?.plan_limits?.autoscaling_allowed !== false || app.autoscaling_enabled
  return (
    <Card title="Scale" lead={`Now ${plural(app.desired_replicas, 'replica')}, each in its own virtual machine.`}>
      <div className="max-w-xl space-y-6">
        {!isAllowed && (
          <Notice tone="warn">
            The plan of this project does not include autoscaling. You can set the number of replicas manually.
          </Notice>
        )}
        {isAllowed && (
          <Toggle
            label="Autoscaling"
            hint="Adds replicas under load and removes them when idle."
            checked={isAutomatic}
            onChange={setAutomatic}
          />
        )}
        <Form
          key={`${isAutomatic}${app.desired_replicas}`}
          submit="Save"
          send={async values => {
            await api.scaleApp({
              app_name: app.name,
              body: {
                autoscaling_enabled: isAutomatic,
                desired_replicas: values.number('desired_replicas'),
                min_replicas: values.number('min_replicas'),
                max_replicas: values.number('max_replicas'),
                cpu_threshold: values.number('cpu_threshold'),
                mem_threshold: values.number('mem_threshold'),
              },
            })
            await refreshAll('app', 'apps', 'active')
            toast({ tone: 'good', title: 'Scaling saved' })
          }}
        >
          {!isAutomatic && (
            <NumberField
              label="Replicas"
              name="desired_replicas"
              {...replicas}
              defaultValue={app.desired_replicas}
              hint="Replicas start and stop one by one, without downtime."
            />
          )}
          <div className="grid grid-cols-2 gap-3">
            <NumberField
              label="At least"
              name="min_replicas"
              {...replicas}
              defaultValue={app.min_replicas}
              hint="0: the app is suspended while it has no requests, and the next one wakes it."
            />
            <NumberField label="At most" name="max_replicas" {...replicas} min={1} defaultValue={app.max_replicas} />
          </div>
          {isAutomatic && (
            <div className="grid grid-cols-2 gap-3">
              <NumberField
                label="CPU threshold, %"
                name="cpu_threshold"
                {...percentage}
                defaultValue={app.cpu_threshold}
                hint="Replicas are added above this CPU usage."
              />
              <NumberField
                label="Memory threshold, %"
                name="mem_threshold"
                {...percentage}
                defaultValue={app.mem_threshold}
              />
            </div>
          )}
        </Form>
      </div>
    </Card>
  )
}
