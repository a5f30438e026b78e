import { useQuery } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Choice, Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'

const intervals = [
  [0, 'Never'],
  [60, 'Every hour'],
  [360, 'Every 6 hours'],
  [1440, 'Every day'],
  [10_080, 'Every week'],
] as const

/** Default number of snapshots to keep. */
const usualKeep = 7

export function Schedule({ id }: { readonly id: string }) {
  const schedule = useQuery(queries.schedule(id))
  return (
    <Card title="Snapshot schedule" lead="Takes snapshots automatically and deletes the oldest.">
      <Loaded query={schedule}>
        {({ every_minutes, keep }) => (
          <Form
            key={`${every_minutes} ${keep}`}
            className="max-w-md"
            submit="Save"
            look="plain"
            send={async values => {
              await api.setVolumeSchedule({
                volume_id: id,
                body: { every_minutes: values.number('every_minutes') ?? 0, keep: values.number('keep') ?? usualKeep },
              })
              await refreshAll('schedule')
              toast({ tone: 'good', title: 'Schedule saved' })
            }}
          >
            <div className="grid grid-cols-2 gap-3">
              <Choice label="How often" name="every_minutes" defaultValue={every_minutes}>
                {!intervals.some(([minutes]) => minutes === every_minutes) && (
                  <option value={every_minutes}>Every {every_minutes} minutes</option>
                )}
                {intervals.map(([minutes, text]) => (
                  <option key={minutes} value={minutes}>
                    {text}
                  </option>
                ))}
              </Choice>
              <Field
                label="Snapshots kept"
                name="keep"
                type="number"
                min={1}
                max={100}
                required
                defaultValue={keep || usualKeep}
              />
            </div>
          </Form>
        )}
      </Loaded>
    </Card>
  )
}
