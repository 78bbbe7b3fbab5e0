-- All events that have a time. Events of CANN about a graph have the time at which that was loaded, however long ago.
create view timed as
select cycle, row, start_ns as time_ns, false as of_graph from spans where start_ns is not null
union all
select cycle, row, start_ns, of_graph from view_spans where start_ns is not null
union all
select cycle, row, time_ns, false from instants where time_ns is not null
union all
select cycle, row, time_ns, is_start and coalesce(category = number_of('HostToDevice'), false) from flows where time_ns is not null
union all
select cycle, row, time_ns, false from others where time_ns is not null;

-- Events that draw something in a process.
create view drawn as
select cycle, row, name, thread from spans where category is distinct from number_of('python_function')
union all
select cycle, row, name, thread from view_spans where category is distinct from number_of('python_function')
union all
select cycle, row, name, thread from instants
union all
select cycle, row, name, thread from flows
union all
select cycle, row, name, thread from others where phase in (number_of('C'), number_of('i'));
