-- Spans that lie in each other on their thread: work of the host and of devices, and the marks of steps.
select *, category <> number_of('user_annotation') as is_work
from spans
where category in (number_of('cpu_op'), number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'),
    number_of('Kernel'), number_of('Memcpy'), number_of('Memset'))
  or category = number_of('Operator')
    and name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]{1,18}'))
  or category = number_of('user_annotation')
    and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'))
